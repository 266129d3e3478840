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
from functools import partial
from typing import Any

from autosched.te import epilogue, lower
from autosched.te.declared import with_precision
from autosched.te.epilogue import ELEMENTWISE
from autosched.te.error import IllegalExpression
from autosched.te.geometry import DIMENSIONS, LAYOUTS, Convolution, Geometry
from autosched.te.layout import default_store
from autosched.te.operand import with_constants
from autosched.te.position import Position, axis_position, new_axis, position, reduce_axis
from autosched.te.reduction import sum
from autosched.te.scatter import scatter
from autosched.te.tensor import define, placeholder
from autosched.te.value import Value
from search_space.workload import Axis, Workload

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


def workload_of(how: Convolution) -> Workload:
    """Return the workload of a convolution; raises IllegalExpression, its ``path`` the argument."""
    return _Lowering(how).workload()


class _Lowering(Geometry):
    """A convolution as an expression."""

    def workload(self) -> Workload:
        make = self._scattered if self.how.transposed else self._gathered
        try:
            axes, read = make()
        except IllegalExpression as error:
            # Everything else has been checked: what is left is output made of padding alone.
            raise IllegalExpression(error.fact, error.path or ("pad",)) from error
        names = [axis.name for axis in axes]
        join = partial(self._joined, axes)
        result = epilogue.apply(tuple(self.how.epilogue), read, join, EPILOGUES, names)
        try:
            built = lower.workload(
                define("Y", axes, result), dtype=self.stored, label=self._label()
            )
        except IllegalExpression as error:
            path = error.path or ("pad",) * self.how.transposed
            path = ("out_dtype",) if path == ("dtype",) else path
            raise IllegalExpression(error.fact, path) from error
        exact = with_precision(built, self.how.precision)
        return with_constants(exact, OPERANDS, self.how.constant)

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

    def _joined(self, axes: tuple[Axis, ...], word: str, name: str, result: Value) -> Value | None:
        """Return what an epilogue with an input makes of ``result``."""
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
        return None

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
        return workload_of(made)

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
