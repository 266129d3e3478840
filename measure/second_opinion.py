"""The reference held against another one, before anything is held against the reference.

The first is ``reference.evaluate``, which turns a stage into ``einsum`` or a whole-tensor
expression. The second takes a few elements of every stage, spells out the terms of each by the
stage's own index arithmetic and adds them up in float64; what a stage reads it takes from the
first, whose earlier stages have passed by then. Knows nothing of kernels. A stage whose index does
not run over its output once (a scatter) is left to the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from measure.reference import FUNCTIONS, compute_dtype, evaluate
from measure.tensor import TORCH_DTYPES
from search_space.dtype import DTYPES, size_bytes
from search_space.expr import Affine, Call, Cast, Const, Expr, Read
from search_space.workload import Stage, Workload

#: Elements of each stage that are spelled out.
POINTS = 32
#: Above this many terms in all, fewer elements are.
TERMS = 1 << 20
#: Largest difference, relative to the size of the terms, by the dtype of the first reference.
_LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}


class Disagreement(Exception):
    """Two references that differ; the message names both, the element and the values."""


def check(workload: Workload, inputs: Sequence[torch.Tensor], seed: int = 0) -> int:
    """Compare both references on ``inputs`` and return how many elements were compared.

    Raises Disagreement.
    """
    first = evaluate(workload, inputs)
    return hold(workload, inputs, first, seed)


def hold(
    workload: Workload,
    inputs: Sequence[torch.Tensor],
    first: Mapping[str, torch.Tensor],
    seed: int = 0,
) -> int:
    """Compare what ``reference.evaluate`` returned, ``first``, element by element."""
    values = {t.name: x for t, x in zip(workload.inputs, inputs, strict=True)} | dict(first)
    compared = 0
    for stage in workload.stages:
        if math.prod(workload.tensors[stage.output].shape) and _runs_over(workload, stage):
            compared += _hold_stage(workload, stage, values, seed)
    return compared


def _runs_over(workload: Workload, stage: Stage) -> bool:
    """Whether the index names one axis for each dimension, whole, and none twice."""
    shape = workload.tensors[stage.output].shape
    axes = [form.single for form in stage.index]
    return len(set(axes)) == len(axes) and all(
        axis is not None and workload.extents[axis] == extent
        for axis, extent in zip(axes, shape, strict=True)
    )


def _hold_stage(
    workload: Workload, stage: Stage, values: Mapping[str, torch.Tensor], seed: int
) -> int:
    kept = [form.single or "" for form in stage.index]
    summed = [a for a in _axes(stage.value) if a not in kept] if stage.reducer else []
    terms = math.prod(workload.extents[axis] for axis in summed)
    count = max(1, min(POINTS, TERMS // max(terms, 1)))
    device = values[stage.output].device
    generator = torch.Generator().manual_seed(seed)
    place = {
        axis: torch.randint(workload.extents[axis], (count,), generator=generator).to(device)
        for axis in kept
    }
    grid = _grid(workload, summed, device)
    where = {axis: at[:, None] for axis, at in place.items()}
    where |= {axis: at[None, :] for axis, at in grid.items()}
    identity = -math.inf if stage.reducer == "max" else 0.0
    spelled = _value(stage.value, where, values, identity)
    spelled = spelled.expand(count, terms)
    second = _joined(workload, stage, spelled)
    found = values[stage.output][tuple(place[axis] for axis in kept)].to(torch.float64)
    found = found.reshape(-1).expand(count)
    _compare(workload, stage, found, second, spelled, place)
    return count


def _axes(value: Expr) -> list[str]:
    match value:
        case Read(_, index):
            found = [axis for form in index for axis in form.axes]
        case Call(_, args):
            found = [axis for arg in args for axis in _axes(arg)]
        case Cast(_, inner):
            found = _axes(inner)
        case _:
            found = []
    return list(dict.fromkeys(found))


def _grid(workload: Workload, axes: Sequence[str], device: torch.device) -> dict[str, torch.Tensor]:
    """Return every combination of the axes' values, one flat tensor for each axis."""
    if not axes:
        return {}
    ranges = [torch.arange(workload.extents[axis], device=device) for axis in axes]
    meshed = torch.meshgrid(*ranges, indexing="ij")
    return {axis: mesh.reshape(-1) for axis, mesh in zip(axes, meshed, strict=True)}


def _value(
    value: Expr,
    where: Mapping[str, torch.Tensor],
    values: Mapping[str, torch.Tensor],
    identity: float,
) -> torch.Tensor:
    """Evaluate an expression where the axes have these values, in float64."""
    device = next(iter(values.values())).device
    match value:
        case Const(number):
            return torch.full((1, 1), float(number), dtype=torch.float64, device=device)
        case Cast(dtype, inner):
            held = _value(inner, where, values, identity)
            return held.to(TORCH_DTYPES[dtype]).to(torch.float64)
        case Call(function, args):
            return FUNCTIONS[function](*(_value(arg, where, values, identity) for arg in args))
        case Read(name, index):
            return _read(values[name], index, where, identity)
    raise TypeError(f"{type(value).__name__} is no expression")


def _read(
    tensor: torch.Tensor,
    index: Sequence[Affine],
    where: Mapping[str, torch.Tensor],
    identity: float,
) -> torch.Tensor:
    """Read one element for each place; out of range reads the identity."""
    inside = torch.ones((1, 1), dtype=torch.bool, device=tensor.device)
    places = []
    for form, extent in zip(index, tensor.shape, strict=True):
        at = torch.full((1, 1), form.constant, device=tensor.device)
        for axis, coefficient in form.terms:
            at = at + coefficient * where[axis]
        inside = inside & (at >= 0) & (at < extent)
        places.append(at.clamp(0, extent - 1))
    element = _taken(tensor, places) if places else tensor.reshape(1, 1)
    return element.to(torch.float64).masked_fill(~inside, identity)


def _taken(tensor: torch.Tensor, places: Sequence[torch.Tensor]) -> torch.Tensor:
    """Index a tensor; torch does not index every float of eight bits, so these go as bytes."""
    if tensor.element_size() > 1:
        return tensor[tuple(places)]
    return tensor.view(torch.int8)[tuple(places)].view(tensor.dtype)


def _joined(workload: Workload, stage: Stage, spelled: torch.Tensor) -> torch.Tensor:
    """Add up, or take the largest of, the terms; round what the stage's output rounds."""
    if stage.reducer == "max":
        joined = spelled.amax(1) if spelled.shape[1] else torch.full_like(spelled[:, 0], -math.inf)
    elif stage.reducer == "sum":
        joined = spelled.sum(1)
    else:
        joined = spelled[:, 0]
    dtype = workload.tensors[stage.output].dtype
    narrow = DTYPES[dtype].kind == "float" and size_bytes(dtype) < 4
    if narrow and stage.output != workload.output.name:
        return joined.to(TORCH_DTYPES[dtype]).to(torch.float64)
    return joined


def _compare(
    workload: Workload,
    stage: Stage,
    found: torch.Tensor,
    second: torch.Tensor,
    spelled: torch.Tensor,
    place: Mapping[str, torch.Tensor],
) -> None:
    precision = compute_dtype(workload)
    size = spelled.abs().nan_to_num(0.0, 0.0, 0.0).sum(1) + second.abs().nan_to_num(0.0, 0.0, 0.0)
    limit = _LIMITS[precision] * (size + 1e-30)
    dtype = workload.tensors[stage.output].dtype
    if DTYPES[dtype].kind == "float" and size_bytes(dtype) < 4:
        # The two may round to neighbours.
        step = torch.finfo(TORCH_DTYPES[dtype]).eps
        limit = limit + step * second.abs().nan_to_num(0.0, 0.0, 0.0)
    same = (found == second) | (found.isnan() & second.isnan())
    apart = ~(same | ((found - second).abs() <= limit))
    if not bool(apart.any()):
        return
    row = int(apart.nonzero()[0, 0])
    element = ", ".join(str(int(at[row])) for at in place.values())
    name = str(precision).removeprefix("torch.")
    raise Disagreement(
        f"two references disagree about {stage.output}[{element}]: whole tensors in {name} give"
        f" {float(found[row]):.9g}, its {spelled.shape[1]} terms one by one in float64 give"
        f" {float(second[row]):.9g}"
    )
