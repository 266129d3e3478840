"""Give steps their meaning: each turns a nest into another, or says why it may not.

Knows nothing of text, GPUs or where a schedule came from. A refusal is an ``IllegalStep`` whose
message names the step, what it asked for and what is the case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from search_space import access
from search_space.dtype import size_bytes
from search_space.expr import Affine, Read
from search_space.index import Index, Quotient, Remainder, variable
from search_space.nest import Nest, initial
from search_space.refusal import IllegalStep, refuse
from search_space.schedule import Schedule
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Fuse,
    Guard,
    Order,
    Pack,
    Persist,
    Pipeline,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    Unroll,
    Vectorize,
    Warps,
)
from search_space.workload import Axis, Stage, Tensor, Workload, contiguous_strides

__all__ = ["IllegalStep", "apply", "replay"]

#: What Triton allows a block to hold (triton.language.core.TRITON_MAX_TENSOR_NUMEL).
LARGEST_BLOCK = 1 << 20


def replay(workload: Workload, schedule: Schedule) -> tuple[Nest, ...]:
    """Apply every step of ``schedule`` to the nest of ``workload``, then check the whole.

    Raises:
        IllegalStep: a step that may not apply, or a nest left unfinished.
    """
    nests: tuple[Nest, ...] = (initial(workload),)
    for step in schedule.steps:
        nests = apply(nests, step)
    for nest in nests:
        _check_finished(nest)
    return nests


def apply(nests: Sequence[Nest], step: Step) -> tuple[Nest, ...]:
    """Apply one step to the nest that it names; nests that it brings about are appended."""
    if step.nest >= len(nests):
        refuse(step, f"there is no nest {step.nest}, only {len(nests)}")
    before, nest, after = nests[: step.nest], nests[step.nest], nests[step.nest + 1 :]
    changed, *appended = _RULES[type(step)](nest, step)
    return (*before, changed, *after, *appended)


def _split(nest: Nest, step: Split) -> tuple[Nest, ...]:
    factor = _integer(step, "factor", step.factor)
    _need_free(nest, step, step.axis)
    _need_fresh(nest, step, step.outer, step.inner)
    extent, kind = nest.extents[step.axis], _kind(nest, step.axis)
    outer_extent = -(-extent // factor)
    definition = variable(step.outer).scale(factor) + variable(step.inner)
    overhang = (step.axis,) if outer_extent * factor > extent else ()
    return (
        replace(
            nest,
            axes=(*nest.axes, Axis(step.outer, outer_extent, kind), Axis(step.inner, factor, kind)),
            definitions={**nest.definitions, step.axis: definition},
            overhangs=(*nest.overhangs, *overhang),
        ),
    )


def _fuse(nest: Nest, step: Fuse) -> tuple[Nest, ...]:
    if len(step.axes) < 2:
        refuse(step, "it takes two axes or more")
    for axis in step.axes:
        _need_free(nest, step, axis)
    _need_fresh(nest, step, step.fused)
    kinds = {_kind(nest, axis) for axis in step.axes}
    if len(kinds) > 1:
        refuse(step, f"{', '.join(step.axes)} are not all of one kind")
    total = math.prod(nest.extents[axis] for axis in step.axes)
    definitions, inner = dict(nest.definitions), total
    for axis in step.axes:
        extent = nest.extents[axis]
        inner //= extent
        whole = Index(((Quotient(variable(step.fused), inner), 1),))
        part = whole if inner > 1 else variable(step.fused)
        definitions[axis] = (
            Index(((Remainder(part, extent), 1),)) if inner * extent < total else part
        )
    axes = (*nest.axes, Axis(step.fused, total, kinds.pop()))
    return (replace(nest, axes=axes, definitions=definitions),)


def _bind(nest: Nest, step: Bind) -> tuple[Nest, ...]:
    swizzle = _integer(step, "swizzle", step.swizzle)
    if nest.grid:
        refuse(step, f"the grid is already bound to {', '.join(nest.grid)}")
    for axis in step.axes:
        _need_free(nest, step, axis)
        if _kind(nest, axis) == "reduction":
            refuse(step, f"{axis!r} is a reduction axis; SplitReduction lets programs share one")
    if swizzle > 1 and len(step.axes) < 2:
        refuse(step, "a swizzle walks two axes, the grid has one")
    return (replace(nest, grid=step.axes, swizzle=swizzle),)


def _persist(nest: Nest, step: Persist) -> tuple[Nest, ...]:
    if not nest.grid:
        refuse(step, "nothing is bound to the grid yet")
    per = _integer(step, "per_multiprocessor", step.per_multiprocessor)
    if step.multiprocessors < 1:
        refuse(step, "multiprocessors must be at least 1")
    return (replace(nest, multiprocessors=step.multiprocessors, per_multiprocessor=per),)


def _tile(nest: Nest, step: Tile) -> tuple[Nest, ...]:
    if nest.groups:
        refuse(step, "the nest is already tiled")
    axes = [axis for group in step.groups for axis in group]
    if not axes or not all(step.groups):
        refuse(step, "every group holds at least one axis")
    for axis in axes:
        _need_free(nest, step, axis)
        extent = nest.extents[axis]
        if extent & (extent - 1):
            refuse(step, f"{axis!r} has extent {extent}; blocks take powers of two")
    if len(set(axes)) < len(axes):
        refuse(step, "an axis is named twice")
    elements = math.prod(nest.extents[axis] for axis in axes)
    if elements > LARGEST_BLOCK << 10:
        refuse(step, f"the block spans {elements} points")
    return (replace(nest, groups=step.groups),)


def _order(nest: Nest, step: Order) -> tuple[Nest, ...]:
    for axis in step.axes:
        _need_free(nest, step, axis)
    return (replace(nest, order=step.axes),)


def _guard(nest: Nest, step: Guard) -> tuple[Nest, ...]:
    if step.axis not in nest.extents:
        refuse(step, f"there is no axis {step.axis!r}")
    if step.mode == "wrap" and _kind(nest, step.axis) == "reduction":
        refuse(step, f"{step.axis!r} is reduced: wrapped elements would be summed twice")
    return (replace(nest, guards={**nest.guards, step.axis: step.mode}),)


def _vectorize(nest: Nest, step: Vectorize) -> tuple[Nest, ...]:
    access.check_vector(nest, step)
    return (replace(nest, vectors={**nest.vectors, step.tensor: step.width}),)


def _cache_read(nest: Nest, step: CacheRead) -> tuple[Nest, ...]:
    if step.tensor not in {t.name for t in nest.inputs}:
        refuse(step, f"{step.tensor!r} is not read; inputs: {_names(nest.inputs)}")
    if step.via == "descriptor":
        for read in access.reads_of(nest, step.tensor):
            access.check_box(nest, step, read, store=False)
    return (replace(nest, cache_reads={**nest.cache_reads, step.tensor: step.via}),)


def _pack(nest: Nest, step: Pack) -> tuple[Nest, ...]:
    if step.tensor not in {t.name for t in nest.inputs}:
        refuse(step, f"{step.tensor!r} is not read; inputs: {_names(nest.inputs)}")
    _need_fresh(nest, step, step.into)
    tensor = nest.tensor[step.tensor]
    if sorted(step.order) != list(range(len(tensor.shape))):
        refuse(step, f"{step.order} is no order of the {len(tensor.shape)} dimensions")
    if step.row_bytes < 1 or step.row_bytes % size_bytes(tensor.dtype):
        refuse(step, f"rows of whole {step.row_bytes} bytes hold no {tensor.dtype}")
    copy = _packed_tensor(tensor, step)
    changed = replace(
        nest,
        tensors=(*nest.tensors, copy),
        statements=access.reordered(nest.statements, tensor.name, copy.name, step.order),
        packed={**nest.packed, copy.name: tensor.name},
    )
    return changed, _packing(nest, step, tensor, copy)


def _packed_tensor(tensor: Tensor, step: Pack) -> Tensor:
    shape = tuple(tensor.shape[d] for d in step.order)
    unit = step.row_bytes // size_bytes(tensor.dtype)
    row = -(-shape[-1] // unit) * unit
    strides = contiguous_strides((*shape[:-1], row))
    return Tensor(step.into, shape, tensor.dtype, strides)


def _packing(nest: Nest, step: Pack, tensor: Tensor, copy: Tensor) -> Nest:
    """Return the nest that copies, one axis per dimension of the tensor."""
    names = [f"d{n}" for n in range(len(tensor.shape))]
    index = tuple(Affine.axis(name) for name in names)
    into = tuple(index[d] for d in step.order)
    return Nest(
        name=f"{nest.name}_pack_{tensor.name}",
        axes=tuple(Axis(n, e, "spatial") for n, e in zip(names, tensor.shape, strict=True)),
        tensors=(tensor, copy),
        intermediates=(),
        statements=(Stage(copy.name, into, Read(tensor.name, index)),),
        precision=nest.precision,
        turn=-1,
    )


def _cache_write(nest: Nest, step: CacheWrite) -> tuple[Nest, ...]:
    parts = _integer(step, "parts", step.parts)
    last = nest.statements[-1]
    if step.via == "descriptor":
        if nest.atomic:
            refuse(step, "partial sums are added atomically, which takes pointers")
        access.check_box(nest, step, Read(last.output, last.index), store=True)
    if parts > 1:
        _check_parts(nest, step, parts)
    return (replace(nest, store=step.via, parts=parts),)


def _check_parts(nest: Nest, step: CacheWrite, parts: int) -> None:
    if not nest.groups:
        refuse(step, "nothing is tiled yet")
    number = access.store_groups(nest)[-1]
    if len(nest.groups[number]) > 1:
        refuse(step, "the columns are a group of several axes")
    extent = nest.group_extent(number)
    if parts & (parts - 1) or extent % parts or extent // parts < 8:
        refuse(step, f"{parts} parts of {extent} columns: want a power of two, 8 columns or more")
    if nest.swap:
        refuse(step, "with operands swapped the columns are the rows of the accumulator")


def _tensorize(nest: Nest, step: Tensorize) -> tuple[Nest, ...]:
    access.check_product(nest, step)
    return (replace(nest, tensorized=True, swap=step.swap),)


def _split_reduction(nest: Nest, step: SplitReduction) -> tuple[Nest, ...]:
    parts, block = _integer(step, "parts", step.parts), _integer(step, "block", step.block)
    _need_free(nest, step, step.axis)
    _need_fresh(nest, step, step.part, step.rest)
    stage = nest.statements[0]
    if step.axis not in nest.reduction_axes(stage):
        refuse(step, f"{step.axis!r} is not reduced; {nest.reduction_axes(stage)} are")
    if stage.reducer != "sum":
        refuse(step, f"the reduction is {stage.reducer!r}; only sums are shared")
    if len(nest.statements) < 2 or nest.tensor[stage.output].name not in nest.intermediates:
        refuse(step, "there is no accumulator apart from the output")
    return _shared(nest, step, parts, block), _join(nest, step, parts)


def _shared(nest: Nest, step: SplitReduction, parts: int, block: int) -> Nest:
    """Return the first nest: each part sums its share and leaves it in the workspace."""
    stage, extent = nest.statements[0], nest.extents[step.axis]
    blocks = -(-extent // block)
    rest = -(-blocks // parts) * block
    workspace = _workspace(nest, step, parts)
    index = stage.index if step.via == "atomic" else (Affine.axis(step.part), *stage.index)
    store = Stage(workspace.name, index, Read(stage.output, stage.index))
    definition = variable(step.part).scale(rest) + variable(step.rest)
    overhang = (step.axis,) if rest * parts > extent else ()
    return replace(
        nest,
        name=f"{nest.name}_part",
        axes=(
            *nest.axes,
            Axis(step.part, parts, "spatial"),
            Axis(step.rest, rest, "reduction"),
        ),
        tensors=(*nest.tensors, workspace),
        statements=(stage, store),
        definitions={**nest.definitions, step.axis: definition},
        overhangs=(*nest.overhangs, *overhang),
        atomic=step.via == "atomic",
    )


def _join(nest: Nest, step: SplitReduction, parts: int) -> Nest:
    """Return the second nest: partial sums added up, then what followed the reduction."""
    stage = nest.statements[0]
    workspace = _workspace(nest, step, parts)
    spatial = tuple(axis for axis in nest.axes if axis.kind == "spatial")
    fresh = replace(
        initial_like(nest),
        name=f"{nest.name}_join",
        turn=1,
        tensors=(*nest.tensors, workspace),
    )
    if step.via == "atomic":
        final = access.renamed(nest.statements[1:], stage.output, workspace.name)
        return replace(fresh, axes=spatial, statements=final)
    read = Read(workspace.name, (Affine.axis(step.part), *stage.index))
    total = Stage(stage.output, stage.index, read, "sum")
    axes = (*spatial, Axis(step.part, parts, "reduction"))
    return replace(fresh, axes=axes, statements=(total, *nest.statements[1:]))


def initial_like(nest: Nest) -> Nest:
    """Return ``nest`` with every decision taken back, for the nest that follows it."""
    return Nest(
        nest.name, nest.axes, nest.tensors, nest.intermediates, nest.statements, nest.precision
    )


def _workspace(nest: Nest, step: SplitReduction, parts: int) -> Tensor:
    accumulator = nest.tensor[nest.statements[0].output]
    shape = accumulator.shape if step.via == "atomic" else (parts, *accumulator.shape)
    name = "partial"
    while name in nest.tensor or name in nest.extents:
        name += "_"
    return Tensor(name, shape, accumulator.dtype)


def _unroll(nest: Nest, step: Unroll) -> tuple[Nest, ...]:
    _need_free(nest, step, step.axis)
    if nest.extents[step.axis] > 64:
        refuse(step, f"{step.axis!r} has {nest.extents[step.axis]} steps; 64 is the most")
    return (replace(nest, unrolled=(*nest.unrolled, step.axis)),)


def _pipeline(nest: Nest, step: Pipeline) -> tuple[Nest, ...]:
    stages = _integer(step, "stages", step.stages)
    if stages > 16:
        refuse(step, f"{stages} stages; 16 is the most")
    return (replace(nest, stages=stages),)


def _warps(nest: Nest, step: Warps) -> tuple[Nest, ...]:
    count = _integer(step, "count", step.count)
    if count & (count - 1) or count > 32:
        refuse(step, f"{count} warps; want a power of two up to 32")
    return (replace(nest, warps=count),)


def _check_finished(nest: Nest) -> None:
    taken = {*nest.grid, *nest.tile_axes}
    for axis in nest.leaves:
        if axis not in taken and _kind(nest, axis) == "spatial" and nest.extents[axis] > 1:
            raise IllegalStep(
                f"{nest.name}: spatial axis {axis!r} is neither on the grid nor in a block"
            )
    if not nest.groups:
        raise IllegalStep(f"{nest.name}: nothing is tiled")
    if not nest.grid:
        raise IllegalStep(f"{nest.name}: nothing is bound to the grid")
    access.check_block_sizes(nest, LARGEST_BLOCK)


def _need_free(nest: Nest, step: Step, axis: str) -> None:
    if axis not in nest.extents:
        refuse(step, f"there is no axis {axis!r}; leaves: {', '.join(nest.leaves)}")
    if axis in nest.definitions:
        refuse(step, f"{axis!r} has already been split or fused")
    if axis in nest.grid:
        refuse(step, f"{axis!r} is bound to the grid")
    if axis in nest.tile_axes:
        refuse(step, f"{axis!r} is held in a block")


def _need_fresh(nest: Nest, step: Step, *names: str) -> None:
    for name in names:
        if name in nest.extents or name in nest.tensor:
            refuse(step, f"the name {name!r} is taken")
    if len(set(names)) < len(names):
        refuse(step, f"the name {names[0]!r} is given twice")


def _integer(step: Step, field: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        refuse(step, f"{field} is {value!r}; want an integer of at least 1")
    return int(value)


def _kind(nest: Nest, axis: str) -> Any:
    return nest.kinds[axis]


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)


_RULES: dict[type[Any], Callable[[Nest, Any], tuple[Nest, ...]]] = {
    Split: _split,
    Fuse: _fuse,
    Bind: _bind,
    Persist: _persist,
    Tile: _tile,
    Order: _order,
    Pack: _pack,
    Guard: _guard,
    Vectorize: _vectorize,
    CacheRead: _cache_read,
    CacheWrite: _cache_write,
    Tensorize: _tensorize,
    SplitReduction: _split_reduction,
    Unroll: _unroll,
    Pipeline: _pipeline,
    Warps: _warps,
}
