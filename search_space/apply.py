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
from search_space.companion import pack, peel, split_reduction
from search_space.demand import integer, names_of, need_free, need_fresh
from search_space.expr import Read, reads
from search_space.index import axes_of, parts_of, variable
from search_space.nest import Nest, initial_nests
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
    Peel,
    Persist,
    Pipeline,
    ReduceLate,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    Unroll,
    Vectorize,
    View,
    Warps,
)
from search_space.view import view
from search_space.workload import Axis, Workload

__all__ = ["IllegalStep", "apply", "replay"]

#: What Triton allows a block to hold (triton.language.core.TRITON_MAX_TENSOR_NUMEL).
LARGEST_BLOCK = 1 << 20


def replay(workload: Workload, schedule: Schedule) -> tuple[Nest, ...]:
    """Apply every step of ``schedule`` to the nests of ``workload``, then check the whole.

    Raises:
        IllegalStep: a step that may not apply, or a nest left unfinished.
    """
    nests = initial_nests(workload)
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
    factor = integer(step, "factor", step.factor)
    need_free(nest, step, step.axis)
    need_fresh(nest, step, step.outer, step.inner)
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
        need_free(nest, step, axis)
    need_fresh(nest, step, step.fused)
    kinds = {_kind(nest, axis) for axis in step.axes}
    if len(kinds) > 1:
        refuse(step, f"{', '.join(step.axes)} are not all of one kind")
    extents = [nest.extents[axis] for axis in step.axes]
    parts = zip(step.axes, parts_of(step.fused, extents), strict=True)
    axes = (*nest.axes, Axis(step.fused, math.prod(extents), kinds.pop()))
    return (replace(nest, axes=axes, definitions={**nest.definitions, **dict(parts)}),)


def _bind(nest: Nest, step: Bind) -> tuple[Nest, ...]:
    swizzle = integer(step, "swizzle", step.swizzle)
    if nest.grid:
        refuse(step, f"the grid is already bound to {', '.join(nest.grid)}")
    for axis in step.axes:
        need_free(nest, step, axis)
        if _kind(nest, axis) == "reduction":
            refuse(step, f"{axis!r} is a reduction axis; SplitReduction lets programs share one")
    if swizzle > 1 and len(step.axes) < 2:
        refuse(step, "a swizzle walks two axes, the grid has one")
    return (replace(nest, grid=step.axes, swizzle=swizzle),)


def _persist(nest: Nest, step: Persist) -> tuple[Nest, ...]:
    if not nest.grid:
        refuse(step, "nothing is bound to the grid yet")
    per = integer(step, "per_multiprocessor", step.per_multiprocessor)
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
        need_free(nest, step, axis)
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
        need_free(nest, step, axis)
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
        refuse(step, f"{step.tensor!r} is not read; inputs: {names_of(nest.inputs)}")
    if step.via == "descriptor":
        for read in access.reads_of(nest, step.tensor):
            access.check_box(nest, step, read, store=False)
    return (replace(nest, cache_reads={**nest.cache_reads, step.tensor: step.via}),)


def _cache_write(nest: Nest, step: CacheWrite) -> tuple[Nest, ...]:
    parts = integer(step, "parts", step.parts)
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
    if nest.late:
        refuse(step, "its reduction is late, which the tensor cores do not do")
    return (replace(nest, tensorized=True, swap=step.swap, registers=step.registers),)


def _reduce_late(nest: Nest, step: ReduceLate) -> tuple[Nest, ...]:
    if nest.tensorized:
        refuse(step, "the product is computed on the tensor cores, which hold sums alone")
    if not nest.statements[0].reducer:
        refuse(step, "the first statement reduces nothing")
    return (replace(nest, late=True),)


def _unroll(nest: Nest, step: Unroll) -> tuple[Nest, ...]:
    need_free(nest, step, step.axis)
    if nest.extents[step.axis] > 64:
        refuse(step, f"{step.axis!r} has {nest.extents[step.axis]} steps; 64 is the most")
    return (replace(nest, unrolled=(*nest.unrolled, step.axis)),)


def _check_repeated(nest: Nest) -> None:
    """Refuse to repeat statements for each step of a spatial axis where blocks are cut in other
    ways already."""
    if not nest.repeated:
        return
    facts = {
        "the product is computed on the tensor cores": nest.tensorized,
        f"it is stored in {nest.parts} parts": nest.parts > 1,
        "it is stored by a descriptor": nest.store == "descriptor",
        "programs share the reduction": bool(nest.part),
    }
    for fact, holds in facts.items():
        if holds:
            raise IllegalStep(
                f"{nest.name}: spatial axis {nest.repeated[0]!r} is unrolled, but {fact}"
            )


def _pipeline(nest: Nest, step: Pipeline) -> tuple[Nest, ...]:
    stages = integer(step, "stages", step.stages)
    if stages > 16:
        refuse(step, f"{stages} stages; 16 is the most")
    return (replace(nest, stages=stages),)


def _warps(nest: Nest, step: Warps) -> tuple[Nest, ...]:
    count = integer(step, "count", step.count)
    if count & (count - 1) or count > 32:
        refuse(step, f"{count} warps; want a power of two up to 32")
    return (replace(nest, warps=count),)


def _check_finished(nest: Nest) -> None:
    taken = {*nest.grid, *nest.tile_axes, *nest.unrolled}
    for axis in nest.leaves:
        if axis not in taken and _kind(nest, axis) == "spatial" and nest.extents[axis] > 1:
            raise IllegalStep(
                f"{nest.name}: spatial axis {axis!r} is neither on the grid nor in a block"
            )
    _check_repeated(nest)
    if not nest.groups:
        raise IllegalStep(f"{nest.name}: nothing is tiled")
    _check_whole(nest)
    if not nest.grid and "spatial" in nest.kinds.values():
        raise IllegalStep(f"{nest.name}: nothing is bound to the grid")
    access.check_block_sizes(nest, LARGEST_BLOCK)


def _kind(nest: Nest, axis: str) -> Any:
    return nest.kinds[axis]


def _check_whole(nest: Nest) -> None:
    """Refuse to reduce again over an axis of which a block holds only a part."""
    for stage in nest.statements[1:]:
        held = any(read.tensor in nest.intermediates for read in reads(stage.value))
        for axis in nest.reduction_axes(stage) if stage.reducer and held else ():
            cut = [n for n in axes_of(nest.resolve(axis)) if n not in nest.tile_axes]
            if cut:
                raise IllegalStep(
                    f"{nest.name}: {stage.output!r} reduces over {axis!r}, of which a block "
                    f"holds a part: {cut[0]!r} is outside"
                )


_RULES: dict[type[Any], Callable[[Nest, Any], tuple[Nest, ...]]] = {
    Split: _split,
    Fuse: _fuse,
    Bind: _bind,
    Persist: _persist,
    Tile: _tile,
    Order: _order,
    Pack: pack,
    View: view,
    Peel: peel,
    Guard: _guard,
    Vectorize: _vectorize,
    CacheRead: _cache_read,
    CacheWrite: _cache_write,
    Tensorize: _tensorize,
    ReduceLate: _reduce_late,
    SplitReduction: split_reduction,
    Unroll: _unroll,
    Pipeline: _pipeline,
    Warps: _warps,
}
