"""Steps that bring about another nest: one that joins the parts of a reduction, one that packs,
one that computes the end of an axis.

Each returns the nest it changed and the nest to append; ``turn`` says which of them runs first.
"""

from __future__ import annotations

from dataclasses import replace

from search_space import access
from search_space.demand import integer, names_of, need_free, need_fresh
from search_space.dtype import size_bytes
from search_space.expr import Affine, Read
from search_space.index import Index, variable
from search_space.nest import Nest
from search_space.refusal import refuse
from search_space.steps import Pack, Peel, SplitReduction
from search_space.workload import Axis, Stage, Tensor, contiguous_strides


def split_reduction(nest: Nest, step: SplitReduction) -> tuple[Nest, ...]:
    """Return the nest in which each part sums its share, and the nest that joins the parts."""
    parts, block = integer(step, "parts", step.parts), integer(step, "block", step.block)
    need_free(nest, step, step.axis)
    need_fresh(nest, step, step.part, step.rest)
    stage = nest.statements[0]
    if step.axis not in _reduced(nest, stage):
        refuse(step, f"{step.axis!r} is not reduced; {nest.reduction_axes(stage)} are")
    if nest.peeled:
        refuse(step, f"{next(iter(nest.peeled))!r} is peeled: the nest holds a part of the output")
    if step.via == "atomic" and stage.reducer != "sum":
        refuse(step, f"the reduction is {stage.reducer!r}; only sums are added atomically")
    if len(nest.statements) < 2 or nest.tensor[stage.output].name not in nest.intermediates:
        refuse(step, "there is no accumulator apart from the output")
    shared = _shared(nest, step, parts, block)
    if step.via == "counter":
        return (_joining(nest, shared, step, parts),)
    return shared, _join(nest, step, parts)


def _reduced(nest: Nest, stage: Stage) -> set[str]:
    """Return the axes that ``stage`` reduces over, and what they were fused into or cut into."""
    axes = nest.reduction_axes(stage)
    return {name for axis in axes for name in nest.ancestors(Affine.axis(axis))}


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
        part=step.part,
    )


def _joining(nest: Nest, shared: Nest, step: SplitReduction, parts: int) -> Nest:
    """Return ``shared`` followed by the statements that the last part to arrive runs alone."""
    stage, workspace = nest.statements[0], _workspace(nest, step, parts)
    total, every = _unused(nest, "total"), _unused(nest, f"{step.part}_all")
    read = Read(workspace.name, (Affine.axis(every), *stage.index))
    accumulator = replace(nest.tensor[stage.output], name=total)
    later = access.renamed(nest.statements[1:], stage.output, total)
    return replace(
        shared,
        name=nest.name,
        axes=(*shared.axes, Axis(every, parts, "reduction")),
        tensors=(*shared.tensors, accumulator),
        intermediates=(*shared.intermediates, total),
        statements=(*shared.statements, Stage(total, stage.index, read, stage.reducer), *later),
        counter=_unused(nest, "arrived"),
    )


def _unused(nest: Nest, name: str) -> str:
    while name in nest.tensor or name in nest.extents:
        name += "_"
    return name


def _join(nest: Nest, step: SplitReduction, parts: int) -> Nest:
    """Return the second nest: partial sums added up, then what followed the reduction."""
    stage = nest.statements[0]
    workspace = _workspace(nest, step, parts)
    spatial = tuple(axis for axis in nest.axes if axis.kind == "spatial")
    fresh = replace(
        _undecided(nest),
        name=f"{nest.name}_join",
        turn=1,
        tensors=(*nest.tensors, workspace),
    )
    if step.via == "atomic":
        final = access.renamed(nest.statements[1:], stage.output, workspace.name)
        return replace(fresh, axes=spatial, statements=final)
    read = Read(workspace.name, (Affine.axis(step.part), *stage.index))
    total = Stage(stage.output, stage.index, read, stage.reducer)
    axes = (*spatial, Axis(step.part, parts, "reduction"))
    return replace(fresh, axes=axes, statements=(total, *nest.statements[1:]))


def _undecided(nest: Nest) -> Nest:
    """Return ``nest`` with every decision taken back, for the nest that follows it."""
    return Nest(
        nest.name,
        nest.axes,
        nest.tensors,
        nest.intermediates,
        nest.statements,
        nest.precision,
        views=nest.views,
    )


def _workspace(nest: Nest, step: SplitReduction, parts: int) -> Tensor:
    accumulator = nest.tensor[nest.statements[0].output]
    shape = accumulator.shape if step.via == "atomic" else (parts, *accumulator.shape)
    return Tensor(_unused(nest, "partial"), shape, accumulator.dtype)


def peel(nest: Nest, step: Peel) -> tuple[Nest, ...]:
    """Return the nest that computes the axis before ``at``, and the one that computes the rest."""
    at = integer(step, "at", step.at)
    need_free(nest, step, step.axis)
    need_fresh(nest, step, step.body, step.rest)
    extent = nest.extents[step.axis]
    if at >= extent:
        refuse(step, f"{step.axis!r} has extent {extent}: nothing is left from {at} on")
    if nest.kinds[step.axis] == "reduction":
        refuse(step, f"{step.axis!r} is reduced: both parts would be needed for each element")
    if nest.part:
        refuse(step, f"the reduction is shared by {nest.extents[nest.part]} programs already")
    if step.axis in {axis for stage in nest.statements for axis in nest.reduction_axes(stage)}:
        refuse(step, f"a later statement reduces over {step.axis!r}")
    body = _part(nest, step.axis, step.body, 0, at)
    rest = _part(_afresh(nest), step.axis, step.rest, at, extent - at)
    return body, replace(rest, name=f"{nest.name}_{step.axis}_rest")


def _part(nest: Nest, axis: str, name: str, start: int, extent: int) -> Nest:
    """Return ``nest`` with ``axis`` running over ``extent`` points from ``start`` on."""
    return replace(
        nest,
        axes=(*nest.axes, Axis(name, extent, "spatial")),
        definitions={**nest.definitions, axis: variable(name) + Index((), start)},
        peeled={**nest.peeled, axis: name},
    )


def _afresh(nest: Nest) -> Nest:
    """Return ``nest`` without decisions, its axes and operands as steps have made them."""
    return replace(
        _undecided(nest),
        definitions=nest.definitions,
        overhangs=nest.overhangs,
        peeled=nest.peeled,
        packed=nest.packed,
        turn=nest.turn,
    )


def pack(nest: Nest, step: Pack) -> tuple[Nest, ...]:
    """Return the nest that reads the copy, and the nest that makes it."""
    if step.tensor not in {t.name for t in nest.inputs}:
        refuse(step, f"{step.tensor!r} is not read; inputs: {names_of(nest.inputs)}")
    need_fresh(nest, step, step.into)
    tensor = nest.tensor[step.tensor]
    if sorted(step.order) != list(range(len(tensor.shape))):
        refuse(step, f"{step.order} is no order of the {len(tensor.shape)} dimensions")
    if step.row_bytes < 1 or step.row_bytes % size_bytes(tensor.dtype):
        refuse(step, f"rows of whole {step.row_bytes} bytes hold no {tensor.dtype}")
    copy = packed_tensor(tensor, step.into, step.order, step.row_bytes)
    changed = replace(
        nest,
        tensors=(*nest.tensors, copy),
        statements=access.reordered(nest.statements, tensor.name, copy.name, step.order),
        packed={**nest.packed, copy.name: tensor.name},
    )
    return changed, _packing(nest, step, tensor, copy)


def packed_tensor(tensor: Tensor, into: str, order: tuple[int, ...], row_bytes: int) -> Tensor:
    """Return the copy that ``Pack`` makes of ``tensor``."""
    shape = tuple(tensor.shape[d] for d in order)
    unit = row_bytes // size_bytes(tensor.dtype)
    row = -(-shape[-1] // unit) * unit
    strides = contiguous_strides((*shape[:-1], row))
    return Tensor(into, shape, tensor.dtype, strides)


def _packing(nest: Nest, step: Pack, tensor: Tensor, copy: Tensor) -> Nest:
    """Return the nest that copies, one axis per dimension of the tensor.

    It fills the copy's rows to their padded end, so that whole vectors are stored.
    """
    names = [f"d{n}" for n in range(len(tensor.shape))]
    index = tuple(Affine.axis(name) for name in names)
    into = tuple(index[d] for d in step.order)
    row = copy.strides[-2] if len(copy.shape) > 1 else copy.shape[-1]
    padded = replace(copy, shape=(*copy.shape[:-1], row))
    extents = dict(enumerate(tensor.shape)) | {step.order[-1]: row}
    return Nest(
        name=f"{nest.name}_pack_{tensor.name}",
        axes=tuple(Axis(name, extents[d], "spatial") for d, name in enumerate(names)),
        tensors=(tensor, padded),
        intermediates=(),
        statements=(Stage(copy.name, into, Read(tensor.name, index)),),
        precision=nest.precision,
        turn=-1,
    )
