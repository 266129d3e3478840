"""Convolutions as affine expressions: windows, groups and residue classes, no words of their own.

Tensors are declared as they are stored, groups as a dimension of their own (docs/adr/0005):

                 channels last                         channels first
X                [n, h, w, (g,) c]                     [n, (g,) c, h, w]
W                [(g,) o, r, s, c]                     [(g,) o, c, r, s]
W, transposed    [(g,) c, r, s, o]                     [(g,) c, o, r, s]
W, depthwise     [g, (m,) r, s]                        [g, (m,) r, s]
Y                [n, y, x, (g,) o]                     [n, (g,) o, y, x]

``g`` is there with more than one group, ``m`` with a multiplier above 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.te import function, lower
from autosched.te.error import IllegalExpression
from autosched.te.layout import default_store
from autosched.te.name import fresh_name
from autosched.te.operators import ELEMENTWISE, MOST_EPILOGUES, OPERAND_DTYPES, scaled
from autosched.te.position import (
    Position,
    axis_position,
    check_integer,
    new_axis,
    position,
    reduce_axis,
)
from autosched.te.reduction import sum
from autosched.te.scatter import scatter
from autosched.te.tensor import define, placeholder
from autosched.te.value import Value
from search_space.dtype import DTYPES
from search_space.workload import Axis, Precision, Workload

#: Layouts by the number of spatial dimensions; the first of each has channels last.
LAYOUTS = {1: ("NLC", "NCL"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
#: What arguments call the spatial dimensions.
DIMENSIONS = {1: ("l",), 2: ("h", "w"), 3: ("d", "h", "w")}
#: Axes of the output, of the taps and of the input.
_OUTPUT = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}
_TAPS = {1: ("s",), 2: ("r", "s"), 3: ("q", "r", "s")}
#: What arguments call the operands, and workloads do.
OPERANDS = {"x": "X", "w": "W"}
#: Epilogues with an input per channel: added, or multiplied; the last is float32.
ADDED, MULTIPLIED, SCALED = ("bias", "bn_shift"), ("bn_scale",), ("channel_scale",)
#: Factors of a whole operand, float32 inputs of one element.
WHOLE = ("scale_a", "scale_b")
EPILOGUES = (*ADDED, "residual", *MULTIPLIED, *SCALED, *WHOLE, *ELEMENTWISE, "scale:FACTOR")

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

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression, its ``path`` the argument meant."""
        return _Lowering(self).workload()


class _Lowering:
    """One convolution with its arguments checked and spread over its dimensions."""

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
        self._check_dtypes()

    def workload(self) -> Workload:
        make = self._scattered if self.how.transposed else self._gathered
        try:
            axes, read = make()
        except IllegalExpression as error:
            # Everything else has been checked: what is left is output made of padding alone.
            raise IllegalExpression(error.fact, error.path or ("pad",)) from error
        result = self._apply(read, axes)
        try:
            built = lower.workload(
                define("Y", axes, result), dtype=self.stored, label=self._label()
            )
        except IllegalExpression as error:
            path = error.path or ("pad",) * self.how.transposed
            path = ("out_dtype",) if path == ("dtype",) else path
            raise IllegalExpression(error.fact, path) from error
        return self._constants(lower.with_precision(built, self.how.precision))

    # Arguments

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

    def _check_dtypes(self) -> None:
        if self.how.dtype not in OPERAND_DTYPES:
            raise IllegalExpression(
                f"{str(self.how.dtype)[:40]!r} is no dtype of operands; known: "
                f"{', '.join(OPERAND_DTYPES)}",
                ("dtype",),
            )
        if self.stored not in DTYPES:
            raise IllegalExpression(
                f"{str(self.stored)[:40]!r} is unknown; known: {', '.join(DTYPES)}", ("out_dtype",)
            )

    @property
    def stored(self) -> str:
        """The dtype of the output."""
        how = self.how
        return default_store(how.dtype) if how.out_dtype is None else how.out_dtype

    # Expressions

    def _arranged(self, channels: Sequence[Position], window: Sequence[Position]) -> list[Position]:
        """Put channels before a window of positions or behind it, as the layout has them."""
        return [*channels, *window] if self.first else [*window, *channels]

    def _spatial(self, names: Sequence[str], extents: Sequence[int]) -> list[Axis]:
        return [new_axis(n, e, "spatial") for n, e in zip(names, extents, strict=True)]

    def _group(self) -> list[Axis]:
        return [new_axis("g", self.groups, "spatial")] * (self.groups > 1 or self.how.depthwise)

    def _outputs(self) -> list[Axis]:
        if self.how.depthwise:
            return [new_axis("m", self.outer, "spatial")] * (self.outer > 1)
        return [new_axis("o", self.outer, "spatial")]

    def _inputs(self) -> list[Position]:
        return [] if self.how.depthwise else [reduce_axis(self.inner, "c")]

    def _weights(
        self, group: Sequence[Position], out: Sequence[Position], taps: Sequence[Position]
    ) -> Value:
        channels = self._inputs()
        shape = [self.groups] * len(group)
        sides = [(out, [self.outer] * len(out)), (channels, [self.inner] * len(channels))]
        if self.how.transposed:
            sides.reverse()
        (left, left_shape), (right, right_shape) = sides
        behind = [*self._arranged(right, taps)]
        window = list(self.how.kernel)
        behind_shape = [*right_shape, *window] if self.first else [*window, *right_shape]
        return _read(
            [*shape, *left_shape, *behind_shape], "W", self.how.dtype, (*group, *left, *behind)
        )

    def _gathered(self) -> tuple[tuple[Axis, ...], Value]:
        """Return the axes of the output and the sum read at them."""
        how = self.how
        group, outer = self._group(), self._outputs()
        batch = new_axis("n", how.n, "spatial")
        window = self._spatial(_OUTPUT[self.rank], self.output)
        g, o = [axis_position(a) for a in group], [axis_position(a) for a in outer]
        c = self._inputs()
        # Taps of extent 1 are axes too: they cost nothing, and a kernel of 1 is a window still.
        names = zip(how.kernel, _TAPS[self.rank], strict=True)
        taps = [reduce_axis(kernel, name) for kernel, name in names]
        places = []
        for d, (axis, tap) in enumerate(zip(window, taps, strict=True)):
            place = axis_position(axis) * self.stride[d] + tap * self.dilation[d]
            padded = any(self.pad[d])
            places.append(place - self.pad[d][0] if padded else place)
        x_shape = self._shape([*[self.groups] * len(g), *[self.inner] * len(c)])
        x_index = (axis_position(batch), *self._arranged([*g, *c], places))
        x = _read(x_shape, "X", how.dtype, x_index)
        product = x * self._weights(g, o, taps)
        reduced = [*taps, *c]
        axes = self._ordered(batch, [*group, *outer], window)
        index = tuple(axis_position(axis) for axis in axes)
        return axes, define("acc", axes, sum(product, axis=reduced))[index]

    def _scattered(self) -> tuple[tuple[Axis, ...], Value]:
        """Return the axes of the output and the scattered sum read at them."""
        how = self.how
        group, outer = self._group(), self._outputs()
        batch = new_axis("n", how.n, "spatial")
        inner = self._spatial([f"i{name}" for name in _OUTPUT[self.rank]], how.extents)
        window = self._spatial(_OUTPUT[self.rank], self.output)
        taps = [
            axis_position(Axis(name, kernel, "spatial")) if kernel > 1 else position(0)
            for name, kernel in zip(_TAPS[self.rank], how.kernel, strict=True)
        ]
        g, o = [axis_position(a) for a in group], [axis_position(a) for a in outer]
        c, at = self._inputs(), [axis_position(a) for a in inner]
        x_shape = self._shape([*[self.groups] * len(g), *[self.inner] * len(c)])
        x = _read(x_shape, "X", how.dtype, (axis_position(batch), *self._arranged([*g, *c], at)))
        goes = [
            y * self.stride[d] + tap * self.dilation[d] - self.pad[d][0]
            for d, (y, tap) in enumerate(zip(at, taps, strict=True))
        ]
        left = (axis_position(batch), *self._arranged([*g, *o], goes))
        axes = self._ordered(batch, [*group, *outer], window)
        shape = [axis.extent for axis in axes]
        total = scatter(shape, left, x * self._weights(g, o, taps), "acc")
        return axes, total[tuple(axis_position(axis) for axis in axes)]

    def _shape(self, channels: list[int]) -> list[int]:
        window = list(self.how.extents)
        return [self.how.n, *(channels + window if self.first else window + channels)]

    def _ordered(self, batch: Axis, channels: list[Axis], window: list[Axis]) -> tuple[Axis, ...]:
        return (batch, *(channels + window if self.first else window + channels))

    # What follows the sum

    def _apply(self, result: Value, axes: tuple[Axis, ...]) -> Value:
        epilogue = tuple(self.how.epilogue)
        if len(epilogue) > MOST_EPILOGUES:
            raise IllegalExpression(
                f"{len(epilogue)} epilogues are given, the limit is {MOST_EPILOGUES}", ("epilogue",)
            )
        taken: set[str] = {axis.name for axis in axes}
        for number, word in enumerate(epilogue):
            name = fresh_name(word, frozenset(taken))
            taken.add(name)
            try:
                result = self._joined(word, name, result, axes)
            except IllegalExpression as error:
                raise IllegalExpression(error.fact, ("epilogue", number)) from error
        return result

    def _joined(self, word: str, name: str, result: Value, axes: tuple[Axis, ...]) -> Value:
        window = _OUTPUT[self.rank]
        channels = tuple(axis for axis in axes[1:] if axis.name not in window)
        if word in WHOLE:
            return result * placeholder((1,), name, "float32")[0]
        if word in (*ADDED, *MULTIPLIED, *SCALED, "residual"):
            over = axes if word == "residual" else channels
            dtype = "float32" if word in SCALED else self.stored
            index = tuple(axis_position(axis) for axis in over)
            other = _read([axis.extent for axis in over], name, dtype, index)
            return result * other if word in (*MULTIPLIED, *SCALED) else result + other
        if word in ELEMENTWISE:
            return ELEMENTWISE[word](result)
        factor = scaled(word)
        if factor is None:
            raise IllegalExpression(
                f"{str(word)[:40]!r} is no epilogue; known: {', '.join(EPILOGUES)}"
            )
        return function.mul(result, factor)

    def _constants(self, built: Workload) -> Workload:
        names = [OPERANDS.get(name, name) for name in self.how.constant]
        try:
            return lower.with_constants(built, names) if names else built
        except IllegalExpression as error:
            raise IllegalExpression(error.fact, ("constant", *error.path)) from error

    def _label(self) -> str:
        how, first = self.how, LAYOUTS[self.rank][self.first]
        name = f"{'depthwise_' * how.depthwise}conv{'_transpose' * how.transposed}{self.rank}d"
        size = "x".join(str(e) for e in (how.n, *how.extents, how.ci))
        kernel = "x".join(str(e) for e in (*how.kernel, self.groups * self.outer))
        facts: dict[str, tuple[Any, ...]] = {"s": self.stride, "p": self.pad, "d": self.dilation}
        plain = {"s": 1, "p": (0, 0), "d": 1}
        said = [
            f"{key}{'x'.join(_short(one) for one in facts[key])}"
            for key in facts
            if any(one != plain[key] for one in facts[key])
        ]
        groups = [f"g{self.groups}"] * (self.groups > 1 and not how.depthwise)
        stored = [self.stored] * (self.stored != default_store(how.dtype))
        precision = [how.precision] * (how.dtype == "float32")
        constant = [f"constant={'+'.join(how.constant)}"] * bool(how.constant)
        parts = (name, f"{size}*{kernel}", *said, *groups, how.dtype, *stored, first)
        return " ".join((*parts, *precision, *how.epilogue, *constant))


def _short(one: int | tuple[int, int]) -> str:
    if isinstance(one, int):
        return str(one)
    return str(one[0]) if one[0] == one[1] else f"{one[0]}:{one[1]}"


def _read(shape: Sequence[int], name: str, dtype: str, index: Sequence[Position]) -> Value:
    return placeholder(shape, name, dtype)[tuple(index)]


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


def _of_rank(
    rank: int, *, transposed: bool = False, depthwise: bool = False
) -> Callable[..., Workload]:
    """Return the function of one rank, whose arguments are those that specs give."""
    names = DIMENSIONS[rank]
    kinds = f"{'depthwise ' * depthwise}{'transposed ' * transposed}convolution"

    def build(**given: object) -> Workload:
        extents = [given.pop(name) for name in names]
        kernel = [given.pop(f"k{name}") for name in names]
        made = Convolution(
            extents=extents,  # type: ignore[arg-type]
            kernel=kernel,  # type: ignore[arg-type]
            transposed=transposed,
            depthwise=depthwise,
            **given,  # type: ignore[arg-type]
        )
        return made.workload()

    sizes = ", ".join((*names, *(f"k{name}" for name in names)))
    build.__doc__ = f"Return a {kinds} over {sizes}; the other arguments are ``Convolution``'s."
    return build


conv1d, conv2d, conv3d = (_of_rank(rank) for rank in LAYOUTS)
depthwise_conv1d, depthwise_conv2d, depthwise_conv3d = (
    _of_rank(rank, depthwise=True) for rank in LAYOUTS
)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _of_rank(rank, transposed=True) for rank in LAYOUTS
)
#: Every convolution by the name that specs use.
BY_NAME: dict[str, Callable[..., Workload]] = {
    f"{kind}{rank}d": build
    for kind, builds in (
        ("conv", (conv1d, conv2d, conv3d)),
        ("depthwise_conv", (depthwise_conv1d, depthwise_conv2d, depthwise_conv3d)),
        ("conv_transpose", (conv_transpose1d, conv_transpose2d, conv_transpose3d)),
    )
    for rank, build in zip(LAYOUTS, builds, strict=True)
}
