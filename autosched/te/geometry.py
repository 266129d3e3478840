"""The numbers of a convolution: what arguments give, checked, and what follows from them.

Knows no expressions. Errors name the argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.te.error import IllegalExpression
from autosched.te.layout import default_store
from autosched.te.operand import check_dtypes
from autosched.te.position import check_integer
from search_space.workload import Precision

#: Layouts by the number of spatial dimensions; the first of each has channels last.
LAYOUTS = {1: ("NLC", "NCL"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
#: What arguments call the spatial dimensions.
DIMENSIONS = {1: ("l",), 2: ("h", "w"), 3: ("d", "h", "w")}

#: One number for all dimensions, or one for each.
PerDimension = int | Sequence[int]
#: The same, or a pair for each dimension (before and after), or "same".
Padding = int | str | Sequence[int | Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution of any rank: ``extents`` of the input and ``kernel`` along each dimension.

    ``stride``, ``dilation`` and ``output_pad`` are one number or one per dimension; ``pad`` also
    a pair per dimension, before and after, or "same": ceil(extent / stride) outputs, the odd
    one of padding after. ``transposed`` gives the adjoint of a convolution: inputs are scattered.
    With ``depthwise`` each of ``ci`` channels is a group that makes ``multiplier`` outputs.

    Sums are kept in float32 (int32 for int8). Epilogues, in order: ``bias`` and ``bn_shift``
    (added) and ``bn_scale`` (a factor) per channel, ``residual`` like the output, all in the
    output's dtype; ``channel_scale`` per channel, ``scale_a`` and ``scale_b`` ([1]) in float32;
    ``relu``, ``gelu``, ``gelu_tanh``, ``silu``, ``scale:FACTOR``. ``constant`` names inputs that
    stay the same from call to call: ``W``, ``X``, or one of the epilogue.
    """

    n: int
    extents: Sequence[int]
    ci: int
    co: int | None = None
    kernel: Sequence[int]
    dtype: str
    out_dtype: str | None = None
    stride: PerDimension = 1
    pad: Padding = 0
    dilation: PerDimension = 1
    groups: int | None = None
    output_pad: PerDimension = 0
    multiplier: int | None = None
    layout: str | None = None
    precision: Precision = "ieee"
    epilogue: Sequence[str] = field(default=())
    constant: Sequence[str] = field(default=())
    transposed: bool = False
    depthwise: bool = False


class Geometry:
    """A convolution with its arguments checked and spread over its dimensions.

    ``first``: channels come first. ``pad`` has a pair a dimension; ``inner`` and ``outer`` count
    the input and output channels of each of ``groups``; ``output`` is the output's window.
    """

    def __init__(self, how: Convolution) -> None:
        self.how, self.rank = how, len(how.extents)
        if self.rank not in LAYOUTS or len(how.kernel) != self.rank:
            raise IllegalExpression(
                f"{self.rank} extent(s) and {len(how.kernel)} of the kernel are given; a "
                "convolution has as many of both, from 1 to 3",
                ("kernel",),
            )
        self.names = DIMENSIONS[self.rank]
        for name, extent, kernel in zip(self.names, how.extents, how.kernel, strict=True):
            _at_least(1, extent, name)
            _at_least(1, kernel, f"k{name}")
        _at_least(1, how.n, "n")
        _at_least(1, how.ci, "ci")
        self.first = self._layout()
        self.stride = self._per_dimension("stride", how.stride, 1)
        self.dilation = self._per_dimension("dilation", how.dilation, 1)
        self.output_pad = self._per_dimension("output_pad", how.output_pad, 0)
        self.pad = self._padding()
        self.groups, self.inner, self.outer = self._channels()
        self.output = tuple(self._output(d) for d in range(self.rank))
        check_dtypes(how.dtype, self.stored)

    def _layout(self) -> bool:
        known = LAYOUTS[self.rank]
        layout = known[0] if self.how.layout is None else self.how.layout
        if layout not in known:
            raise IllegalExpression(
                f"{str(layout)[:40]!r} is no layout of {self.rank} dimension(s); "
                f"there are {' and '.join(known)}",
                ("layout",),
            )
        return layout == known[1]

    def _per_dimension(self, name: str, given: PerDimension, least: int) -> tuple[int, ...]:
        values: tuple[int, ...] = (given,) * self.rank if isinstance(given, int) else tuple(given)
        if len(values) != self.rank:
            raise IllegalExpression(
                f"{len(values)} number(s) are given, there are {self.rank} dimension(s)", (name,)
            )
        return tuple(_at_least(least, one, name) for one in values)

    def _padding(self) -> tuple[tuple[int, int], ...]:
        given, how = self.how.pad, self.how
        if isinstance(given, str):
            if given != "same" or how.transposed:
                wish = "a transposed convolution has no" if given == "same" else "pad is no"
                raise IllegalExpression(f"{wish} {given[:40]!r}; give numbers", ("pad",))
            reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, how.kernel, strict=True)]
            sizes = zip(how.extents, self.stride, reach, strict=True)
            total = [max(0, (-(-e // s) - 1) * s + k - e) for e, s, k in sizes]
            return tuple((p // 2, p - p // 2) for p in total)
        values: tuple[Any, ...] = (given,) * self.rank if isinstance(given, int) else tuple(given)
        if len(values) != self.rank:
            raise IllegalExpression(
                f"{len(values)} padding(s) are given, there are {self.rank} dimension(s)", ("pad",)
            )
        pairs: list[tuple[int, ...]] = [
            (one, one) if isinstance(one, int) else tuple(one) for one in values
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise IllegalExpression("a pair is a padding before and one after", ("pad",))
        return tuple((_at_least(0, a, "pad"), _at_least(0, b, "pad")) for a, b in pairs)

    def _channels(self) -> tuple[int, int, int]:
        """Return the number of groups, and input and output channels of each."""
        how = self.how
        if how.depthwise:
            multiplier = self._multiplier()
            if how.groups not in (None, how.ci):
                raise IllegalExpression(
                    f"depthwise, each of {how.ci} channels is a group, not {how.groups} groups",
                    ("groups",),
                )
            return how.ci, 1, multiplier
        if how.multiplier is not None:
            raise IllegalExpression("is for depthwise convolutions; say co", ("multiplier",))
        if how.co is None:
            raise IllegalExpression("is missing", ("co",))
        groups = _at_least(1, 1 if how.groups is None else how.groups, "groups")
        for name, channels in (("ci", how.ci), ("co", _at_least(1, how.co, "co"))):
            if channels % groups:
                raise IllegalExpression(
                    f"{groups} groups do not divide {name}, {channels} channels", ("groups",)
                )
        return groups, how.ci // groups, how.co // groups

    def _multiplier(self) -> int:
        how = self.how
        if how.multiplier is None and how.co is not None:
            if _at_least(1, how.co, "co") % how.ci:
                raise IllegalExpression(
                    f"{how.co} is no multiple of the {how.ci} channels of ci", ("co",)
                )
            return how.co // how.ci
        multiplier = _at_least(1, 1 if how.multiplier is None else how.multiplier, "multiplier")
        if how.co not in (None, how.ci * multiplier):
            raise IllegalExpression(
                f"{how.co} is given where ci times multiplier is {how.ci * multiplier}", ("co",)
            )
        return multiplier

    def _output(self, d: int) -> int:
        """Return the extent of the output along a dimension."""
        how, stride = self.how, self.stride[d]
        extent, padding = how.extents[d], self.pad[d][0] + self.pad[d][1]
        reach = self.dilation[d] * (how.kernel[d] - 1)
        if not how.transposed:
            if self.output_pad[d]:
                raise IllegalExpression("is for transposed convolutions", ("output_pad",))
            out = (extent + padding - reach - 1) // stride + 1
            if out < 1:
                raise IllegalExpression(
                    f"the kernel reaches {reach + 1} along {self.names[d]}, where the input has "
                    f"{extent} and {padding} of padding: there is no output",
                    (f"k{self.names[d]}",),
                )
            return out
        most = max(stride, self.dilation[d])
        if self.output_pad[d] >= most:
            raise IllegalExpression(
                f"{self.output_pad[d]} is not below the larger of stride and dilation, {most}",
                ("output_pad",),
            )
        out = (extent - 1) * stride - padding + reach + self.output_pad[d] + 1
        if out < 1:
            raise IllegalExpression(
                f"{padding} along {self.names[d]} leaves {out} elements of output", ("pad",)
            )
        return out

    @property
    def stored(self) -> str:
        """The dtype of the output."""
        how = self.how
        return default_store(how.dtype) if how.out_dtype is None else how.out_dtype


def _at_least(least: int, given: int, name: str) -> int:
    if check_argument(given, name) < least:
        raise IllegalExpression(f"{given} is below {least}", (name,))
    return given


def check_argument(given: int, name: str) -> int:
    """Return ``given`` if it is an integer within bounds; the error names the argument."""
    try:
        return check_integer(given, name)
    except IllegalExpression as error:
        raise IllegalExpression(error.fact, (name,)) from error
