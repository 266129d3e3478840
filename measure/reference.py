"""The workload's expression, evaluated by torch in float64 (float32 for the largest).

Sees the expression alone, never the nest that kernels are rendered from, so that an error in
lowering shows. Knows nothing of kernels and of no operator by name: sums of products become
``einsum``; where an index adds up several axes, all but one of them are looped over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch

from measure.tensor import TORCH_DTYPES
from search_space.dtype import DTYPES, size_bytes
from search_space.expr import Affine, Call, Cast, Const, Expr, Read, reads
from search_space.workload import Stage, Workload

#: Above this many bytes of float64 operands the reference is computed in float32.
FLOAT64_LIMIT_BYTES = 24 << 30

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "max": torch.maximum,
    "min": torch.minimum,
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True)
class Labelled:
    """A tensor whose dimensions are named by axes, in order. No axis occurs twice."""

    axes: tuple[str, ...]
    value: torch.Tensor


def compute_dtype(workload: Workload) -> torch.dtype:
    """Return float64, or float32 where float64 operands would not fit comfortably."""
    elements = sum(math.prod(t.shape) for t in workload.tensors.values())
    return torch.float64 if elements * 8 <= FLOAT64_LIMIT_BYTES else torch.float32


def evaluate(
    workload: Workload,
    inputs: Sequence[torch.Tensor],
    shift: Mapping[str, float] | None = None,
) -> dict[str, torch.Tensor]:
    """Return every intermediate and the output by name, not rounded to the output's dtype.

    ``inputs`` are in the workload's order. ``shift`` adds a number to a named intermediate after
    it is computed: how far the output moves then is how sensitive it is to an error there.
    """
    dtype = compute_dtype(workload)
    values = {t.name: x.to(dtype) for t, x in zip(workload.inputs, inputs, strict=True)}
    results: dict[str, torch.Tensor] = {}
    for stage in workload.stages:
        made = _stage(workload, stage, values, dtype)
        if shift and stage.output in shift:
            made = made + shift[stage.output]
        values[stage.output] = results[stage.output] = made
    return results


def _stage(
    workload: Workload, stage: Stage, values: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> torch.Tensor:
    """Evaluate one stage into a contiguous tensor of its output's shape."""
    tensor = workload.tensors[stage.output]
    identity = -math.inf if stage.reducer == "max" else 0.0
    looped = _looped(workload, stage)
    if not looped and _covers(workload, stage):
        result = _spread(stage, _reduced(workload, stage, values, {}, identity), {}, workload)
    else:
        result = _base(workload, stage, values, identity)
        for point in _points(workload, looped):
            part = _reduced(workload, stage, values, point, identity)
            _accumulate(workload, stage, result, part, point)
    narrow = DTYPES[tensor.dtype].kind == "float" and size_bytes(tensor.dtype) < 4
    if narrow and tensor is not workload.output:
        return result.to(TORCH_DTYPES[tensor.dtype]).to(dtype)
    return result


def _base(
    workload: Workload, stage: Stage, values: Mapping[str, torch.Tensor], identity: float
) -> torch.Tensor:
    """Return what the output of ``stage`` holds before its parts are joined into it."""
    like, shape = next(iter(values.values())), workload.tensors[stage.output].shape
    result = torch.full(shape, identity, dtype=like.dtype, device=like.device)
    if stage.reducer is None and workload.elsewhere is not None:
        axes = {axis.name: axis.extent for axis in workload.element_axes}

        def operand(leaf: Read | Const) -> Labelled:
            if isinstance(leaf, Const):
                return Labelled((), like.new_full((), float(leaf.value)))
            return _gather(values[leaf.tensor], leaf.index, {}, axes, 0.0)

        result.copy_(_aligned(_elementwise(workload.elsewhere, operand), tuple(axes)))
    return result


def _covers(workload: Workload, stage: Stage) -> bool:
    """Whether the index of a stage runs over its whole output, each axis along one dimension."""
    shape = workload.tensors[stage.output].shape
    axes = [form.single for form in stage.index]
    return len(set(axes)) == len(axes) and all(
        axis is not None and workload.extents[axis] == extent
        for axis, extent in zip(axes, shape, strict=True)
    )


def _looped(workload: Workload, stage: Stage) -> tuple[str, ...]:
    """Choose the axes to loop over so that every index form keeps at most one axis.

    Of a form with several, the axis of the largest extent stays a tensor dimension.
    """
    extents, looped = workload.extents, set[str]()
    forms = [*stage.index, *(form for read in reads(stage.value) for form in read.index)]
    for form in forms:
        left = [axis for axis in form.axes if axis not in looped]
        left.sort(key=lambda axis: extents[axis])
        looped.update(left[:-1])
    return tuple(axis.name for axis in workload.axes if axis.name in looped)


def _points(workload: Workload, looped: Sequence[str]) -> Iterator[dict[str, int]]:
    ranges = [range(workload.extents[axis]) for axis in looped]
    for values in product(*ranges):
        yield dict(zip(looped, values, strict=True))


def _reduced(
    workload: Workload,
    stage: Stage,
    values: Mapping[str, torch.Tensor],
    point: Mapping[str, int],
    identity: float,
) -> Labelled:
    """Evaluate the value of a stage at ``point`` and reduce the axes that its index lacks."""
    like = next(iter(values.values()))

    def operand(leaf: Read | Const) -> Labelled:
        if isinstance(leaf, Const):
            return Labelled(
                (), torch.full((), float(leaf.value), dtype=like.dtype, device=like.device)
            )
        return _gather(values[leaf.tensor], leaf.index, point, workload.extents, identity)

    kept = tuple(dict.fromkeys(a for form in stage.index for a in form.axes if a not in point))
    factors = _factors(stage.value) if stage.reducer == "sum" else None
    if factors and all(len(reads(factor)) <= 1 for factor in factors):
        return _einsum([_elementwise(factor, operand) for factor in factors], kept)
    whole = _elementwise(stage.value, operand)
    summed = [n for n, axis in enumerate(whole.axes) if axis not in kept]
    value = whole.value
    if summed and stage.reducer == "max":
        value = value.amax(summed)
    elif summed:
        value = value.sum(summed)
    return Labelled(tuple(axis for axis in whole.axes if axis in kept), value)


def _factors(value: Expr) -> list[Expr]:
    if isinstance(value, Call) and value.function == "mul":
        return [factor for arg in value.args for factor in _factors(arg)]
    return [value]


def _gather(
    tensor: torch.Tensor,
    index: Sequence[Affine],
    point: Mapping[str, int],
    extents: Mapping[str, int],
    identity: float,
) -> Labelled:
    """Read a tensor at affine positions of one axis each; out of range reads the identity."""
    axes: list[str] = []
    for form in index:
        dim, axis = len(axes), _free_axis(form, point)
        if axis is not None and axis in axes:
            positions = _positions(form, axis, point, extents, tensor.device)
            tensor = _diagonal(tensor, axes.index(axis), dim, positions, identity)
            continue
        tensor = _taken(tensor, dim, _progression(form, axis, point, extents), identity)
        if axis is None:
            tensor = tensor.squeeze(dim)
        else:
            axes.append(axis)
    return Labelled(tuple(axes), tensor)


def _free_axis(form: Affine, point: Mapping[str, int]) -> str | None:
    free = [axis for axis in form.axes if axis not in point]
    return free[0] if free else None


@dataclass(frozen=True)
class _Progression:
    """Positions ``first + step * i`` for 0 <= i < count; ``step`` is not 0."""

    first: int
    step: int
    count: int

    def inside(self, size: int) -> tuple[int, int]:
        """Return from which i to which (not included) positions lie from 0 to ``size`` - 1."""
        ends = (-self.first, size - 1 - self.first)
        low, high = ends if self.step > 0 else (-ends[1], -ends[0])
        start = min(max(0, -(-low // abs(self.step))), self.count)
        return start, max(start, min(self.count, high // abs(self.step) + 1))

    def view(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """Return the elements of ``tensor`` at those positions that it has, without a copy unless
        they run backwards."""
        start, end = self.inside(tensor.shape[dim])
        if start == end:
            return tensor.narrow(dim, 0, 0)
        ends = sorted(self.first + self.step * i for i in (start, end - 1))
        window = [slice(None)] * dim + [slice(ends[0], ends[1] + 1, abs(self.step))]
        view = tensor[tuple(window)]
        return view if self.step > 0 else view.flip(dim)


def _progression(
    form: Affine, axis: str | None, point: Mapping[str, int], extents: Mapping[str, int]
) -> _Progression:
    first = form.constant + sum(c * point[name] for name, c in form.terms if name in point)
    if axis is None:
        return _Progression(first, 1, 1)
    return _Progression(first, dict(form.terms)[axis], extents[axis])


def _taken(tensor: torch.Tensor, dim: int, where: _Progression, identity: float) -> torch.Tensor:
    """Read dimension ``dim`` at positions; ``identity`` where there is nothing."""
    start, end = where.inside(tensor.shape[dim])
    view = where.view(tensor, dim)
    if (start, end) == (0, where.count):
        return view
    sizes = [where.count if n == dim else size for n, size in enumerate(tensor.shape)]
    padded = tensor.new_full(sizes, identity)
    padded.narrow(dim, start, end - start).copy_(view)
    return padded


def _positions(
    form: Affine,
    axis: str,
    point: Mapping[str, int],
    extents: Mapping[str, int],
    device: torch.device,
) -> torch.Tensor:
    where = _progression(form, axis, point, extents)
    return torch.arange(where.count, device=device) * where.step + where.first


def _diagonal(
    tensor: torch.Tensor, first: int, second: int, positions: torch.Tensor, identity: float
) -> torch.Tensor:
    """Keep ``second`` only at ``positions``, one for each step of dimension ``first``."""
    inside = (positions >= 0) & (positions < tensor.shape[second])
    shape = [1] * tensor.dim()
    shape[first] = -1
    wanted = positions.clamp(0, tensor.shape[second] - 1).view(shape)
    sizes = [1 if n == second else size for n, size in enumerate(tensor.shape)]
    taken = tensor.gather(second, wanted.expand(sizes))
    return taken.masked_fill(~inside.view(shape), identity).squeeze(second)


def _einsum(operands: Sequence[Labelled], kept: tuple[str, ...]) -> Labelled:
    numbers: dict[str, int] = {}
    for operand in operands:
        for axis in operand.axes:
            numbers.setdefault(axis, len(numbers))
    kept = tuple(axis for axis in kept if axis in numbers)
    arguments: list[torch.Tensor | list[int]] = []
    for operand in operands:
        arguments += [operand.value, [numbers[axis] for axis in operand.axes]]
    value = torch.einsum(*arguments, [numbers[axis] for axis in kept])
    return Labelled(kept, value)


def _elementwise(value: Expr, operand: Callable[[Read | Const], Labelled]) -> Labelled:
    """Evaluate an expression, its operands broadcast against one another by axis."""
    match value:
        case Read() | Const():
            return operand(value)
        case Cast(dtype, inner):
            held = _elementwise(inner, operand)
            rounded = held.value.to(TORCH_DTYPES[dtype]).to(held.value.dtype)
            return Labelled(held.axes, rounded)
        case Call(function, args):
            parts = [_elementwise(arg, operand) for arg in args]
            axes = tuple(dict.fromkeys(axis for part in parts for axis in part.axes))
            return Labelled(axes, FUNCTIONS[function](*(_aligned(part, axes) for part in parts)))


def _aligned(part: Labelled, axes: tuple[str, ...]) -> torch.Tensor:
    """Bring the dimensions of ``part`` into the order of ``axes``, with 1 where it has none."""
    if not part.axes:
        return part.value
    order = [part.axes.index(axis) for axis in axes if axis in part.axes]
    value = part.value.permute(order)
    for position, axis in enumerate(axes):
        if axis not in part.axes:
            value = value.unsqueeze(position)
    return value


def _spread(
    stage: Stage, part: Labelled, point: Mapping[str, int], workload: Workload
) -> torch.Tensor:
    """Bring a part into the dimensions of the stage's index, repeated along axes it lacks."""
    axes = tuple(_free_axis(form, point) for form in stage.index)
    value = _aligned(part, tuple(axis for axis in axes if axis is not None))
    for dim, axis in enumerate(axes):
        if axis is None:
            value = value.unsqueeze(dim)
    return value.expand([1 if axis is None else workload.extents[axis] for axis in axes])


def _accumulate(
    workload: Workload,
    stage: Stage,
    result: torch.Tensor,
    part: Labelled,
    point: Mapping[str, int],
) -> None:
    """Join a part into ``result`` at the stage's index, in place; what falls outside is dropped."""
    value, there = _spread(stage, part, point, workload), result
    for dim, form in enumerate(stage.index):
        where = _progression(form, _free_axis(form, point), point, workload.extents)
        start, end = where.inside(result.shape[dim])
        value = value.narrow(dim, start, end - start)
        if where.step < 0:
            value = value.flip(dim)
            last = where.first + where.step * (where.count - 1)
            where = _Progression(last, -where.step, where.count)
        there = where.view(there, dim)
    if stage.reducer is None:
        there.copy_(value)
    elif stage.reducer == "max":
        torch.maximum(there, value, out=there)
    else:
        there.add_(value)
