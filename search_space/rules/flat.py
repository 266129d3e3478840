"""Products whose sides have several axes that lie within one another, as plain products.

The images, rows and columns that a convolution of one tap runs over are one axis of rows: a view
of an operand joins the dimensions, another one those of the output, and what is left is a
contraction of three axes that descriptors bring in. Nothing is copied that lies right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from search_space import access
from search_space.companion import packed_tensor
from search_space.expr import Affine, Read, reads
from search_space.rules.contraction import is_legal, plain_variants, sketch_of
from search_space.rules.pack import is_plain, packed_order, padded_row_bytes, wants_k_major
from search_space.rules.role import Blocking, Contraction, contraction, extent_of, fuse, live
from search_space.rules.variant import Variant, structure_of
from search_space.sketch import Sketch, Structure
from search_space.steps import CacheRead, CacheWrite, Pack, Step, View
from search_space.target import Target
from search_space.workload import Axis, Tensor, Workload

#: By how much a side of a block may shrink so that the output is stored in longer rows.
MOST_LOST = 8


@dataclass(frozen=True)
class Operand:
    """A tensor as it is read, or its copy; the axes of its side that lie within one another."""

    tensor: Tensor
    index: tuple[Affine, ...]
    run: tuple[Axis, ...]
    is_copy: bool = False


@dataclass(frozen=True)
class Flat:
    """A contraction whose sides are fused of axes that lie within one another."""

    blocks: Blocking
    a: Operand
    b: Operand
    kind: str = "flat"


def flat_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return every legal variant, or one sentence on why none applies."""
    roles = contraction(workload)
    if isinstance(roles, str):
        return roles
    flats = flats_of(workload, roles)
    if isinstance(flats, str):
        return flats
    if is_plain(flats[0].blocks, target):
        return "the product is formed without tensor cores, which pointers feed as well"
    variants = [*plain_variants(roles, target)]
    found = (_sketch(flat, variant, target) for flat in flats for variant in variants)
    legal = tuple(s for s in found if s.structure.load == "descriptor" and is_legal(s))
    return legal or "no variant is legal"


def flats_of(workload: Workload, roles: Contraction) -> tuple[Flat, ...] | str:
    """Choose the axes that blocks hold, or return one sentence on why they are as before.

    Where the output has axes of both sides in turns, so that no block of it is made of long rows,
    there is a second way: of one side, that of which less is lost, a block holds one axis.
    """
    for read in (roles.a, roles.b):
        for form in read.index:
            if len(live(workload, form).terms) > 1 or (form.terms and not _single(workload, form)):
                return f"an index of {read.tensor!r} is not one axis alone"
    if roles.whole:
        return f"a block holds the whole of {roles.whole[0].name!r}"
    plain = [x for x in roles.k if all(_at(workload, r, x) for r in (roles.a, roles.b))]
    if not plain:
        return "no reduced axis is read plainly by both operands"
    k = max(plain, key=lambda axis: axis.extent)
    whole = _flat(workload, roles, k, roles.m, roles.n)
    if whole is None:
        return "one operand holds no output axis plainly"
    run_m, run_n = whole.a.run, whole.b.run
    if len(run_m) == len(run_n) == 1 and not roles.windowed:
        return "each side of a block has one axis"
    if _is_joined(workload, run_m) and _is_joined(workload, run_n):
        return (whole,)
    ways = [
        (extent_of(run) // max(axis.extent for axis in run), side)
        for side, run in (("m", run_m), ("n", run_n))
        if len(run) > 1
    ]
    lost, side = min(ways, default=(MOST_LOST + 1, ""))
    if lost > MOST_LOST:
        return (whole,)
    sides = (_longest(run_m), roles.n) if side == "m" else (roles.m, _longest(run_n))
    apart = _flat(workload, roles, k, *sides)
    return (whole, replace(apart, kind="flat.apart")) if apart else (whole,)


def _flat(
    workload: Workload,
    roles: Contraction,
    k: Axis,
    side_m: tuple[Axis, ...],
    side_n: tuple[Axis, ...],
) -> Flat | None:
    a, b = _operand(workload, roles.a, side_m, k), _operand(workload, roles.b, side_n, k)
    if not a.run or not b.run:
        return None
    fused_m, m = fuse(workload, a.run)
    fused_n, n = fuse(workload, b.run)
    return Flat(Blocking(workload, roles, m, n, k, {**fused_m, **fused_n}), a, b)


def _longest(run: tuple[Axis, ...]) -> tuple[Axis, ...]:
    return (max(run, key=lambda axis: axis.extent),)


def _is_joined(workload: Workload, run: tuple[Axis, ...]) -> bool:
    """Whether the axes of ``run`` follow one another in the output."""
    order = [_single(workload, form) for form in workload.stages[-1].index]
    names: list[str | None] = [axis.name for axis in run]
    return any(order[n : n + len(names)] == names for n in range(len(order)))


def _single(workload: Workload, form: Affine) -> str | None:
    return form.single or live(workload, form).single


def _at(workload: Workload, read: Read, axis: Axis) -> bool:
    return any(_single(workload, form) == axis.name for form in read.index)


def _operand(workload: Workload, read: Read, side: tuple[Axis, ...], k: Axis) -> Operand:
    """Return an operand as it lies if descriptors and tensor cores take it so, else as copied."""
    tensor = workload.tensors[read.tensor]
    lies = Operand(tensor, read.index, _run(workload, tensor, read.index, side))
    last = _last(workload, read)
    rows = [k.name]
    if not wants_k_major(workload, tensor):
        rows += [axis.name for axis in lies.run]
    if last in rows and lies.run and _row_bytes(workload, lies) == 16:
        return lies
    dims = [n for n, form in enumerate(read.index) if _single(workload, form) == k.name]
    order = packed_order(tensor, dims[0])
    index = tuple(read.index[d] for d in order)
    copy = packed_tensor(tensor, tensor.name, order, padded_row_bytes(tensor, order))
    return Operand(copy, index, _run(workload, copy, index, side), is_copy=True)


def _last(workload: Workload, read: Read) -> str | None:
    """Return the axis that rows run along: that of the last dimension of more than one element."""
    shape = workload.tensors[read.tensor].shape
    dims = [form for form, extent in zip(read.index, shape, strict=True) if extent > 1]
    return _single(workload, dims[-1]) if dims else None


def _run(
    workload: Workload, tensor: Tensor, index: tuple[Affine, ...], side: tuple[Axis, ...]
) -> tuple[Axis, ...]:
    """Return the axes of ``side`` that run along dimensions within one another, the longest of
    several such runs."""
    axes = {axis.name: axis for axis in side}
    runs: list[list[Axis]] = [[]]
    beside = 0
    for extent, stride, form in zip(tensor.shape, tensor.strides, index, strict=True):
        axis = axes.get(_single(workload, form) or "")
        if axis is None and extent == 1:
            continue
        if axis is None or beside != extent * stride:
            runs.append([])
        runs[-1] += [axis] if axis and axis.extent == extent else []
        beside = stride if axis and axis.extent == extent else 0
    return tuple(max(runs, key=lambda run: math.prod(axis.extent for axis in run)))


def _row_bytes(workload: Workload, operand: Operand) -> int:
    """Return the alignment of rows once dimensions are joined."""
    dims = _dims(workload, operand.tensor, operand.index, (operand.run,))
    strides = tuple(operand.tensor.strides[group[-1]] for group in dims)
    shape = tuple(math.prod(operand.tensor.shape[d] for d in group) for group in dims)
    return access.row_bytes(replace(operand.tensor, shape=shape, strides=strides))


def _dims(
    workload: Workload,
    tensor: Tensor,
    index: tuple[Affine, ...],
    runs: tuple[tuple[Axis, ...], ...],
    held: tuple[Axis, ...] = (),
) -> tuple[tuple[int, ...], ...]:
    """Return the dimensions of a view: those of a run as one and those of one element within the
    last. With ``held`` dimensions without an axis of the block come first, so that the box stays
    in shared memory."""
    after = {(x.name, y.name) for run in runs for x, y in itertools.pairwise(run)}
    along = {axis.name for run in runs for axis in run} | {axis.name for axis in held}
    free, rest, ones = list[tuple[int, ...]](), list[tuple[int, ...]](), list[int]()
    last: tuple[str, int] | None = None
    for number, form in enumerate(index):
        extent, stride = tensor.shape[number], tensor.strides[number]
        axis = _single(workload, form)
        if extent == 1 and axis not in along:
            ones.append(number)
            continue
        if held and axis not in along:
            free.append((number,))
        elif last and axis and (last[0], axis) in after and last[1] == extent * stride:
            rest[-1] = (*rest[-1], number)
        else:
            rest.append((number,))
        last = (axis, stride) if axis else None
    if rest:
        rest[-1] = (*ones, *rest[-1])
    return (*free, *rest) if rest else tuple((d,) for d in range(len(index)))


def _sketch(flat: Flat, variant: Variant, target: Target) -> Sketch:
    variant = replace(variant, kind=flat.kind, pack_a=flat.a.is_copy, pack_b=flat.b.is_copy)
    sketch = sketch_of(flat.blocks, variant, target)
    structure = flat_structure(flat.blocks, variant)
    steps = tuple(_viewed(flat, sketch.steps, stores=not variant.joins))
    return replace(sketch, steps=steps, structure=structure)


def flat_structure(blocks: Blocking, variant: Variant) -> Structure:
    """Return what bounds and features need to know: as of any contraction, but that rows of joined
    dimensions are aligned."""
    last_a, last_b = (_last(blocks.workload, read) for read in (blocks.roles.a, blocks.roles.b))
    return replace(
        structure_of(blocks, variant),
        a_row_bytes=16,
        b_row_bytes=16,
        a_k_major=variant.pack_a or last_a == blocks.k.name,
        b_k_major=variant.pack_b or last_b == blocks.k.name,
    )


def _viewed(flat: Flat, steps: tuple[Step, ...], *, stores: bool) -> Iterator[Step]:
    """Yield ``steps`` with views of what the first nest brings in and stores."""
    workload = flat.blocks.workload
    copies = {step.into: step.tensor for step in steps if isinstance(step, Pack)}
    operands = {operand.tensor.name: operand for operand in (flat.a, flat.b)}
    later = dict(_read_later(workload)) if stores else {}
    for step in steps:
        if isinstance(step, CacheRead) and not step.nest:
            operand = operands.get(copies.get(step.tensor, step.tensor))
            if operand:
                view = _view(flat, step.tensor, operand.tensor, operand.index, flat.blocks.k)
            else:
                view = _view(flat, step.tensor, *later.pop(step.tensor))
            if view:
                yield view
                step = replace(step, tensor=view.into)
        elif isinstance(step, CacheWrite) and not step.nest and stores:
            for name, (tensor, index) in later.items():
                if view := _view(flat, name, tensor, index):
                    yield view
        yield step


def _read_later(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, tuple[Affine, ...]]]]:
    """Yield the output and the inputs of later stages that are read at one position, by name."""
    found = [read for stage in workload.stages[1:] for read in reads(stage.value)]
    found = [*dict.fromkeys(found), Read(workload.output.name, workload.stages[-1].index)]
    names = [read.tensor for read in found]
    for read in found:
        tensor = workload.tensors[read.tensor]
        if names.count(read.tensor) == 1 and tensor not in workload.intermediates:
            yield read.tensor, (tensor, read.index)


def _view(
    flat: Flat, name: str, tensor: Tensor, index: tuple[Affine, ...], *held: Axis
) -> View | None:
    """Return the view of what is stored as ``tensor``; None where that serves as it lies."""
    blocks = flat.blocks
    dims = _dims(blocks.workload, tensor, index, (flat.a.run, flat.b.run), held)
    if dims == tuple((d,) for d in range(len(index))):
        return None
    return View(name, blocks.fresh(f"{name}_view"), dims)
