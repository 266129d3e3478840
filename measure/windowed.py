"""Finds a convolution, plain or transposed, in a workload, by structure: see docs/adr/0005.

Axes have their roles from where they occur: in the output and both operands a group; in the output
and the weights an output channel; in both operands alone a channel, or a tap where the image is
read at ``stride * y + dilation * tap + offset``; in the output and the image a position, or the
number of the image where it is the first that is read plainly. Transposed ones are those whose
output is stored at affine positions, residue class by residue class, or whose taps run backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from measure.convolution import Convolution, Folded, Spread, Window
from measure.product import Aligned, Step
from measure.recognise import steps_on
from search_space.expr import Affine, Call, Cast, Const, Expr, Read
from search_space.workload import Stage, Workload

#: What torch's convolutions take.
DTYPES = ("float16", "bfloat16", "float32", "float64")
MOST_SPATIAL = 3


def library_convolutions(workload: Workload) -> tuple[Convolution, ...]:
    """Return ``workload`` as a convolution and steps on it, in one way or several; or none."""
    summed, last = workload.stages[0], workload.stages[-1]
    if summed.reducer != "sum" or len(workload.stages) > 2:
        return ()
    match summed.value:
        case Call("mul", (Read() as left, Read() as right)):
            pass
        case _:
            return ()
    steps: list[Step] | None = []
    if last is not summed:
        acc = Read(summed.output, summed.index)
        operand = partial(_operand, workload, last.index)
        steps = None if last.reducer else steps_on(acc, last.value, operand)
    if steps is None:
        return ()
    for image, weights in ((left, right), (right, left)):
        roles = _Roles(workload, summed, last, image, weights)
        if roles.legal and (found := tuple(roles.convolutions(tuple(steps)))):
            return found
    return ()


def _operand(workload: Workload, places: tuple[Affine, ...], value: Expr) -> Aligned | float | None:
    """Return what a step takes: a number, or an input read at some of the output's positions."""
    if isinstance(value, Cast):
        return _operand(workload, places, value.value)
    if isinstance(value, Const):
        return float(value.value)
    names = [tensor.name for tensor in workload.inputs]
    if not isinstance(value, Read) or value.tensor not in names:
        return None
    position, tensor = names.index(value.tensor), workload.tensors[value.tensor]
    if tensor.elements == 1:
        dims = tuple(range(len(places)))[-len(tensor.shape) :]
        order = tuple(range(len(tensor.shape)))
        held = Aligned(position, order, dims, len(places), tensor.dtype)
        return held if len(dims) == len(order) else None
    if any(form not in places or not form.axes for form in value.index):
        return None
    dims = tuple(places.index(form) for form in value.index)
    extents = tuple(workload.output.shape[dim] for dim in dims)
    if len(set(dims)) != len(dims) or extents != tensor.shape:
        return None
    order = tuple(sorted(range(len(dims)), key=lambda n: dims[n]))
    return Aligned(position, order, tuple(sorted(dims)), len(places), tensor.dtype)


@dataclass(frozen=True)
class _Position:
    """One spatial dimension: ``x[stride * y + factor * tap + offset]``.

    ``y`` and ``tap`` are "" where there is none; so is ``residue``, the class of the output.
    """

    dim: int
    y: str
    stride: int
    tap: str
    factor: int
    offset: int
    residue: str = ""


@dataclass(frozen=True)
class _Roles:
    """A sum of products with one operand as the image and the other as the weights."""

    workload: Workload
    summed: Stage
    last: Stage
    image: Read
    weights: Read

    @cached_property
    def out(self) -> tuple[str, ...]:
        """The axes of the sum."""
        return tuple(form.single or "" for form in self.summed.index)

    @cached_property
    def of_image(self) -> set[str]:
        """The axes at which the image is read."""
        return {axis for form in self.image.index for axis in form.axes}

    @cached_property
    def of_weights(self) -> set[str]:
        """The axes at which the weights are read."""
        return {axis for form in self.weights.index for axis in form.axes}

    @cached_property
    def place(self) -> Mapping[str, tuple[int, Affine]]:
        """Where an axis of the sum goes: the dimension of the output, and its position there."""
        found = ((a, (dim, form)) for dim, form in enumerate(self.last.index) for a in form.axes)
        return dict(found)

    @property
    def legal(self) -> bool:
        """Whether operands and sum are what a convolution may have."""
        inputs = {tensor.name for tensor in self.workload.inputs}
        tensors = self.workload.tensors
        dtypes = {tensors[read.tensor].dtype for read in (self.image, self.weights)}
        placed = [axis for form in self.last.index for axis in form.axes]
        return (
            {self.image.tensor, self.weights.tensor} <= inputs
            and self.image.tensor != self.weights.tensor
            and len(dtypes) == 1
            and dtypes <= set(DTYPES)
            and "" not in self.out
            and len(set(self.out)) == len(self.out)
            and sorted(placed) == sorted(self.out)
            and all(self._once(read) for read in (self.image, self.weights))
        )

    def _once(self, read: Read) -> bool:
        """Whether no axis occurs in two dimensions, and none of them is a number."""
        axes = [axis for form in read.index for axis in form.axes]
        return len(set(axes)) == len(axes) and all(form.axes for form in read.index)

    def convolutions(self, steps: tuple[Step, ...]) -> Iterator[Convolution]:
        """Yield the convolution that this is, transposed or plain; nothing if it is neither."""
        positions = self._positions()
        if positions is None or not 1 <= len(positions) <= MOST_SPATIAL:
            return
        backwards = any(one.factor < 0 for one in positions)
        if backwards or any(len(form.axes) > 1 or form.single is None for form in self.last.index):
            spreads = [self._spread(one) for one in positions]
            if None not in spreads:
                made = self._built(positions, steps, tuple(s for s in spreads if s))
                yield from (made,) if made else ()
        if all(form.single for form in self.last.index):
            windows = tuple(self._window(one) for one in positions)
            made = self._built(positions, steps, windows)
            yield from (made,) if made else ()

    def _positions(self) -> list[_Position] | None:
        """Return the spatial dimensions in the image's order; None where there can be none."""
        found: list[_Position] = []
        own = 0
        for dim, form in enumerate(self.image.index):
            axis = form.single
            spatial = axis in self.out and axis not in self.of_weights
            if axis is not None and not spatial:
                if axis not in self.of_weights:
                    return None
                continue
            plain = axis is not None and self.place[axis][1].single == axis
            if plain and not own:
                own = 1
                continue
            position = self._position(dim, form)
            if position is None:
                return None
            found.append(position)
        return found

    def _position(self, dim: int, form: Affine) -> _Position | None:
        """Read off stride, dilation and offset of one dimension of the image."""
        ys = [axis for axis in form.axes if axis in self.out and axis not in self.of_weights]
        taps = [axis for axis in form.axes if axis in self.of_weights and axis not in self.out]
        if len(ys) > 1 or len(taps) > 1 or len(ys) + len(taps) != len(form.axes):
            return None
        y, tap, factors = "".join(ys), "".join(taps), dict(form.terms)
        stride, factor = factors.get(y, 1), factors.get(tap, 1)
        residue = [a for a in self.place[y][1].axes if a != y] if y else []
        if stride < 1 or len(residue) > 1:
            return None
        return _Position(dim, y, stride, tap, factor, form.constant, "".join(residue))

    def _window(self, at: _Position) -> Window:
        extents = self.workload.extents
        size = self.workload.tensors[self.image.tensor].shape[at.dim]
        taps, count = extents.get(at.tap, 1), extents.get(at.y, 1)
        dilation = abs(at.factor)
        reach = dilation * (taps - 1)
        left = -at.offset + (reach if at.factor < 0 else 0)
        if left >= 0 and (size + 2 * left - reach - 1) // at.stride + 1 == count:
            right = left
        else:
            right = (count - 1) * at.stride + reach + 1 - left - size
        return Window(at.stride, dilation, left, right, at.factor < 0 and taps > 1)

    def _spread(self, at: _Position) -> Spread | None:
        """Read the residue classes of one dimension back; see docs/adr/0005."""
        if at.stride != 1 or (at.factor > 0 and at.tap) or not at.y:
            return None
        extents = self.workload.extents
        size = self.workload.tensors[self.image.tensor].shape[at.dim]
        out_dim, form = self.place[at.y]
        length, factors = self.workload.output.shape[out_dim], dict(form.terms)
        stride, residue = factors[at.y], at.residue
        taps = self._taps(at)
        steps, classes = extents.get(at.tap, 1), extents.get(residue, 1)
        weights = self._weight_form(at)
        period = dict(weights.terms).get(at.tap, 1) if weights and at.tap else 1
        if residue:
            dilation = factors[residue]
            common = math.gcd(stride, dilation)
            if at.tap and (period, -at.factor) != (stride // common, dilation // common):
                return None
        else:
            dilation = stride * -at.factor if at.tap and taps > 1 else 1
        if stride < 1 or dilation < 1 or not self._covers(at, weights, steps, classes, taps):
            return None
        if at.tap and not residue and period != 1 and taps > 1:
            return None
        padding = stride * at.offset - form.constant
        return self._reached(at, stride, dilation, padding, size, length)

    def _weight_form(self, at: _Position) -> Affine | None:
        wanted = {axis for axis in (at.tap, at.residue) if axis}
        found = [form for form in self.weights.index if wanted & set(form.axes)]
        same = len(found) == 1 and set(found[0].axes) == wanted and not found[0].constant
        return found[0] if same else None

    def _taps(self, at: _Position) -> int:
        shape = self.workload.tensors[self.weights.tensor].shape
        form = self._weight_form(at)
        return shape[self.weights.index.index(form)] if form else 1

    def _covers(
        self, at: _Position, form: Affine | None, steps: int, classes: int, taps: int
    ) -> bool:
        """Whether ``period * step + class`` names every tap, and none twice."""
        if not at.tap and not at.residue:
            return True
        if form is None:
            return False
        factors = dict(form.terms)
        period = factors.get(at.tap, classes)
        once = factors.get(at.residue, 1) == 1 and period >= classes
        whole = period == classes or steps == 1
        return once and whole and period * (steps - 1) + classes >= taps

    def _reached(
        self, at: _Position, stride: int, dilation: int, padding: int, size: int, length: int
    ) -> Spread | None:
        """Return the dimension if every element that a product falls on is stored."""
        extents, taps = self.workload.extents, self._taps(at)
        shift = -at.factor if at.tap else 0
        steps, classes = extents.get(at.tap, 1), extents.get(at.residue, 1)
        for residue in range(classes):
            low = max(0, -((dilation * residue - padding) // stride))
            high = (length - 1 + padding - dilation * residue) // stride
            high = min(high, size - 1 + shift * (steps - 1))
            if low <= high and (low < at.offset or high > at.offset + extents[at.y] - 1):
                return None
        whole = (size - 1) * stride + dilation * (taps - 1) + 1
        more = length - (whole - 2 * padding)
        if taps == 1:  # any dilation is right, and the output padding must stay below one
            dilation = max(1, more + 1)
        if padding >= 0 and 0 <= more < max(stride, dilation):
            return Spread(stride, dilation, padding, more, 0, length)
        if padding < 0 or padding + length - whole >= max(stride, dilation):
            return None
        return Spread(stride, dilation, 0, max(0, padding + length - whole), padding, length)

    def _built(
        self,
        positions: list[_Position],
        steps: tuple[Step, ...],
        windows: tuple[Window, ...] | tuple[Spread, ...],
    ) -> Convolution | None:
        workload, extents = self.workload, self.workload.extents
        spatial = {at.dim for at in positions}
        taken = {axis for at in positions for axis in (at.tap, at.residue)}
        plain = [form.single for n, form in enumerate(self.image.index) if n not in spatial]
        batch = [a for a in plain if a and a not in self.of_weights]
        groups = [a for a in plain if a in self.of_weights and a in self.out]
        inner = [a for a in plain if a in self.of_weights and a not in self.out]
        free = [form.single for form in self.weights.index if form.single]
        outer = [a for a in free if a in self.out and a not in groups and a not in taken]
        known = {*batch, *groups, *inner, *outer, *taken, *(at.y for at in positions)} - {""}
        if known != {*self.out, *self.of_image, *self.of_weights}:
            return None
        image = workload.tensors[self.image.tensor]
        shape = (
            math.prod(extents[a] for a in batch),
            math.prod(extents[a] for a in (*groups, *inner)),
            *(image.shape[at.dim] for at in positions),
        )
        order = [self._dim(self.image, a) for a in (*batch, *groups, *inner)]
        made = Folded(self._input(self.image), (*order, *(at.dim for at in positions)), shape)
        weights = self._folded_weights(positions, windows, groups, outer, inner)
        kept = [*batch, *groups, *outer, *(at.y for at in positions if at.y)]
        dims = [self.place[axis][0] for axis in kept]
        if sorted(dims) != list(range(len(self.last.index))) or weights is None:
            return None
        return Convolution(
            made,
            weights,
            windows,
            math.prod(extents[a] for a in groups),
            tuple(workload.output.shape[dim] for dim in dims),
            tuple(dims.index(dim) for dim in range(len(dims))),
            steps,
            image.dtype,
            workload.output.dtype,
            workload.precision,
            self._channels([self.place[axis][0] for axis in (*groups, *outer)]),
        )

    def _channels(self, dims: list[int]) -> tuple[int, ...]:
        """Return the dimensions that a bias runs along; none where torch orders them otherwise."""
        return tuple(dims) if dims == sorted(dims) else ()

    def _folded_weights(
        self,
        positions: list[_Position],
        windows: tuple[Window, ...] | tuple[Spread, ...],
        groups: list[str],
        outer: list[str],
        inner: list[str],
    ) -> Folded | None:
        extents = self.workload.extents
        transposed = isinstance(windows[0], Spread)
        taps: list[tuple[int | None, int]] = []
        for at in positions:
            form = self._weight_form(at)
            if form is None and (at.tap or at.residue):
                return None
            if form is not None and not (transposed or form.single):
                return None
            taps.append((self.weights.index.index(form) if form else None, self._taps(at)))
        if not transposed and any(
            extents.get(at.tap, 1) != count for at, (_, count) in zip(positions, taps, strict=True)
        ):
            return None
        first, second = ((*groups, *inner), outer) if transposed else ((*groups, *outer), inner)
        order = [self._dim(self.weights, axis) for axis in (*first, *second)]
        order += [dim for dim, _ in taps if dim is not None]
        if sorted(order) != list(range(len(self.weights.index))):
            return None
        shape = [math.prod(extents[a] for a in axes) for axes in (first, second)]
        sizes = (*shape, *(count for _, count in taps))
        return Folded(self._input(self.weights), tuple(order), sizes)

    def _dim(self, read: Read, axis: str) -> int:
        return read.index.index(Affine.axis(axis))

    def _input(self, read: Read) -> int:
        return [tensor.name for tensor in self.workload.inputs].index(read.tensor)
