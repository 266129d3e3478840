"""What an access permits: boxes, vectors and products. Legality is a property of the access,
never of an operator's name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from search_space.dtype import size_bytes
from search_space.expr import Affine, Call, Expr, Read, reads, rewrite
from search_space.index import Index, Var, axes_of, interval
from search_space.nest import Nest
from search_space.refusal import IllegalStep, refuse
from search_space.steps import CacheRead, CacheWrite, Step, Tensorize, Vectorize
from search_space.workload import Axis, Stage, Tensor

#: What the bulk copy engine takes: base and outer strides in multiples of 16 bytes, rank 5.
DESCRIPTOR_ALIGNMENT_BYTES = 16
DESCRIPTOR_RANK = 5
#: A line of L2, of which the copy engine fetches whole ones (measured: 5000 cubed by boxes of
#: 128-byte rows takes 473 us from rows of 10,000 bytes, where 5120 cubed takes 364).
LINE_BYTES = 128


def reads_of(nest: Nest, tensor: str) -> tuple[Read, ...]:
    """Return the distinct reads of ``tensor``."""
    found = [r for stage in nest.statements for r in reads(stage.value) if r.tensor == tensor]
    return tuple(dict.fromkeys(found))


def renamed(stages: Sequence[Stage], old: str, new: str) -> tuple[Stage, ...]:
    """Return ``stages`` reading tensor ``new`` where they read ``old``."""

    def change(expr: Expr) -> Expr:
        return Read(new, expr.index) if isinstance(expr, Read) and expr.tensor == old else expr

    return tuple(replace(stage, value=rewrite(stage.value, change)) for stage in stages)


def reordered(
    stages: Sequence[Stage], old: str, new: str, order: Sequence[int]
) -> tuple[Stage, ...]:
    """Return ``stages`` reading ``new``, whose dimensions are those of ``old`` in ``order``."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.tensor == old:
            return Read(new, tuple(expr.index[d] for d in order))
        return expr

    return tuple(replace(stage, value=rewrite(stage.value, change)) for stage in stages)


def replaced(stages: Sequence[Stage], old: Read, new: Read) -> tuple[Stage, ...]:
    """Return ``stages`` reading and storing ``new`` where they read and store ``old``."""

    def change(expr: Expr) -> Expr:
        return new if expr == old else expr

    def target(stage: Stage) -> tuple[str, tuple[Affine, ...]]:
        is_old = Read(stage.output, stage.index) == old
        return (new.tensor, new.index) if is_old else (stage.output, stage.index)

    return tuple(
        replace(s, output=target(s)[0], index=target(s)[1], value=rewrite(s.value, change))
        for s in stages
    )


def tile_axes_in(nest: Nest, index: Index) -> tuple[str, ...]:
    """Return the tile axes that occur in ``index``, sorted."""
    return tuple(sorted({name for name in axes_of(index) if name in nest.tile_axes}))


def groups_in(nest: Nest, form: Affine) -> tuple[int, ...]:
    """Return the tile groups that the index ``form`` runs along, sorted."""
    axes = tile_axes_in(nest, nest.resolve(form))
    return tuple(sorted({g for a in axes if (g := nest.group_of(a)) is not None}))


def store_groups(nest: Nest) -> tuple[int, ...]:
    """Return the tile groups of the stored block in the order of the output's dimensions, each
    where it occurs last.

    Groups that the index skips (an extent of 1) come first.
    """
    last = nest.statements[-1]
    ordered = [g for form in last.index for g in groups_in(nest, form)]
    ordered = list(dict.fromkeys(reversed(ordered)))[::-1]
    spatial = [n for n, group in enumerate(nest.groups) if nest.kinds[group[0]] == "spatial"]
    skipped = [n for n in spatial if n not in ordered]
    return (*skipped, *ordered)


def box(nest: Nest, read: Read) -> tuple[int, ...]:
    """Return the extent of the block along each dimension of the tensor that ``read`` names."""
    extents = []
    for form in read.index:
        axes = tile_axes_in(nest, nest.resolve(form))
        extents.append(math.prod(nest.extents[axis] for axis in axes))
    return tuple(extents)


def straddles(tensor: Tensor) -> bool:
    """Whether rows of ``tensor`` begin within lines of L2, so that a box's row of one line takes
    two of them."""
    strides = (s * size_bytes(tensor.dtype) for s in tensor.strides[:-1] if s)
    return any(stride % LINE_BYTES for stride in strides)


def guard_mode(tensor: Tensor, read: Read, axis: Axis) -> Literal["mask", "wrap"]:
    """Return how loads by pointers best treat positions past the end of ``axis``.

    Wrapping spares a mask. But of ``x % extent`` Triton knows no more than that runs of the largest
    power of two in ``extent`` are contiguous: along rows of odd length it sees no neighbours, and
    lays the lanes of a warp across the rows, each in a sector of its own (read off its TTGIR).
    """
    runs_along_rows = tensor.strides[-1] == 1 and axis.name in read.index[-1].axes
    return "mask" if runs_along_rows and axis.extent % 2 else "wrap"


def check_box(nest: Nest, step: CacheRead | CacheWrite, read: Read, *, store: bool) -> None:
    """Refuse unless the block of ``read`` is a box that a descriptor can address.

    The copy engine reads zero out of a tensor's range, and stores nothing there; it knows nothing
    of axes. A spatial axis that overhangs is harmless in a load, whatever is read there: those
    points are dropped by the store. A reduction axis must overhang past the dimension's own end,
    and zeros where positions leave the tensor are right in sums of products alone.
    """
    tensor = nest.tensor[read.tensor]
    if not nest.groups:
        refuse(step, "nothing is tiled yet")
    _check_descriptor_layout(step, tensor)
    for number, form in enumerate(read.index):
        _check_box_dimension(nest, step, tensor, number, form, store=store)
    _check_box_groups(nest, step, read)
    if not store and leaves(nest, read) and not _sums_products(nest, read):
        refuse(step, f"{tensor.name!r} is left, and zeros there are not what is meant")
    last_bytes = box(nest, read)[-1] * size_bytes(tensor.dtype)
    if last_bytes < DESCRIPTOR_ALIGNMENT_BYTES:
        refuse(step, f"the last box dimension of {tensor.name!r} holds {last_bytes} bytes, not 16")
    row_bytes = tensor.shape[-1] * size_bytes(tensor.dtype)
    if store and row_bytes % DESCRIPTOR_ALIGNMENT_BYTES:
        refuse(step, f"rows of {row_bytes} bytes: a descriptor may store past their end")


def _check_descriptor_layout(step: Step, tensor: Tensor) -> None:
    if len(tensor.shape) > DESCRIPTOR_RANK:
        refuse(step, f"{tensor.name!r} has rank {len(tensor.shape)}; descriptors have at most 5")
    if tensor.strides[-1] != 1:
        refuse(step, f"the last stride of {tensor.name!r} is {tensor.strides[-1]}, not 1")
    if tensor.alignment_bytes % DESCRIPTOR_ALIGNMENT_BYTES:
        refuse(step, f"{tensor.name!r} is aligned to {tensor.alignment_bytes} bytes, not 16")
    for stride in tensor.strides[:-1]:
        stride_bytes = stride * size_bytes(tensor.dtype)
        if stride_bytes % DESCRIPTOR_ALIGNMENT_BYTES or stride == 0:
            refuse(step, f"a stride of {tensor.name!r} is {stride_bytes} bytes, not whole 16s")


def _check_box_dimension(
    nest: Nest, step: Step, tensor: Tensor, number: int, form: Affine, *, store: bool
) -> None:
    index = nest.resolve(form)
    along = [(a, c) for a, c in index.terms if tile_axes_in(nest, Index(((a, c),)))]
    if len(along) > 1 or any(not isinstance(a, Var) or c != 1 for a, c in along):
        refuse(step, f"dimension {number} of {tensor.name!r} does not step by 1 in one tile axis")
    overhangs = nest.ancestors(form) & set(nest.overhangs)
    for axis in overhangs:
        harmless = not store and nest.kinds[axis] == "spatial"
        if not harmless and not _ends_with(nest, form, axis, tensor.shape[number]):
            refuse(step, f"{axis!r} overhangs within dimension {number} of {tensor.name!r}")
    low, high = interval(nest.resolve(form), nest.extents)
    if store and not overhangs and (low < 0 or high >= tensor.shape[number]):
        refuse(step, f"dimension {number} of {tensor.name!r} is left")


def _check_box_groups(nest: Nest, step: Step, read: Read) -> None:
    """Refuse a box that holds a part of a tile group, or its axes in another order: reshaped, it
    would not be the block."""
    along = [a for form in read.index for a in tile_axes_in(nest, nest.resolve(form))]
    for group in nest.groups:
        wanted = [axis for axis in group if nest.extents[axis] > 1]
        if not set(wanted) & set(along):
            continue
        at = along.index(wanted[0]) if wanted[0] in along else 0
        if along[at : at + len(wanted)] != wanted:
            refuse(step, f"the box of {read.tensor!r} does not run along {', '.join(wanted)}")


def leaves(nest: Nest, read: Read) -> bool:
    """Whether some point of the computation reads out of the tensor's range."""
    shape = nest.tensor[read.tensor].shape
    within = replace(
        nest,
        definitions={a: d for a, d in nest.definitions.items() if a not in nest.overhangs},
    )
    bounds = (interval(within.resolve(form), nest.extents) for form in read.index)
    return any(low < 0 or high >= e for (low, high), e in zip(bounds, shape, strict=True))


def _sums_products(nest: Nest, read: Read) -> bool:
    """Whether everything that reads like ``read`` sums products of two reads."""
    users = [stage for stage in nest.statements if read in reads(stage.value)]
    return all(product(stage) is not None for stage in users)


def _ends_with(nest: Nest, form: Affine, axis: str, extent: int) -> bool:
    """Whether what lies past the end of ``axis`` lies past ``extent`` as well: ``form`` is the axis
    itself, or one of which it is the end."""
    whole, start = form.single, 0
    if whole is not None and nest.peeled.get(whole) == axis:
        start = nest.definitions[whole].constant
    elif whole != axis:
        return False
    return start + nest.extents[axis] == extent


def check_vector(nest: Nest, step: Vectorize) -> None:
    """Refuse unless ``step.width`` elements along ``step.axis`` lie side by side and aligned."""
    if step.tensor not in nest.tensor:
        refuse(step, f"there is no tensor {step.tensor!r}")
    tensor = nest.tensor[step.tensor]
    if step.width < 1 or step.width & (step.width - 1):
        refuse(step, f"width {step.width} is not a power of two")
    if step.axis not in nest.tile_axes:
        refuse(step, f"{step.axis!r} is not held in a block")
    if nest.extents[step.axis] % step.width:
        refuse(step, f"{step.axis!r} has extent {nest.extents[step.axis]}, width is {step.width}")
    if row_bytes(tensor) < step.width * size_bytes(tensor.dtype):
        refuse(
            step,
            f"rows of {step.tensor!r} are aligned to {row_bytes(tensor)} bytes, "
            f"{step.width} elements take {step.width * size_bytes(tensor.dtype)}",
        )
    for read in _accesses(nest, step.tensor):
        if step.axis not in tile_axes_in(nest, nest.resolve(read.index[-1])):
            refuse(step, f"{step.axis!r} does not run along the rows of {step.tensor!r}")


def _accesses(nest: Nest, tensor: str) -> tuple[Read, ...]:
    last = nest.statements[-1]
    stored = (Read(last.output, last.index),) if last.output == tensor else ()
    return (*reads_of(nest, tensor), *stored)


def row_bytes(tensor: Tensor) -> int:
    """Return the largest power of two, at most 16, to which every row of ``tensor`` is aligned.

    A tensor whose last stride is not 1 has rows of one element.
    """
    size = size_bytes(tensor.dtype)
    if tensor.strides[-1:] != (1,):
        return size
    return math.gcd(16, tensor.alignment_bytes, *(s * size for s in tensor.strides[:-1]))


def product(stage: Stage) -> tuple[Read, Read] | None:
    """Return the operands if a statement sums the product of two reads, else None."""
    value = stage.value
    if stage.reducer != "sum" or not isinstance(value, Call) or value.function != "mul":
        return None
    first, second = value.args
    if isinstance(first, Read) and isinstance(second, Read):
        return first, second
    return None


def check_product(nest: Nest, step: Tensorize) -> None:
    """Refuse unless the first statement is a product of two blocks that share one group."""
    operands = product(nest.statements[0])
    if operands is None:
        refuse(step, "the first statement is not a sum of products of two reads")
    if len(nest.groups) != 3:
        refuse(step, f"a product takes three tile groups, there are {len(nest.groups)}")
    sides = [{g for form in operand.index for g in groups_in(nest, form)} for operand in operands]
    reduced = [n for n, group in enumerate(nest.groups) if nest.kinds[group[0]] == "reduction"]
    if len(reduced) != 1:
        refuse(step, "exactly one tile group holds reduction axes")
    for operand, side in zip(operands, sides, strict=True):
        if len(side - set(reduced)) != 1:
            refuse(step, f"the block of {operand.tensor!r} wants one spatial group, wider than 1")
    if (sides[0] & sides[1]) - set(reduced):
        refuse(step, "both operands run along the same spatial group")
    for operand in operands if step.registers else ():
        dtype = nest.tensor[operand.tensor].dtype
        if dtype not in ("float16", "bfloat16", "float32"):
            refuse(step, f"{dtype} operands do not pass through registers")
    if nest.group_extent(reduced[0]) < 16:
        refuse(step, f"the reduced group has extent {nest.group_extent(reduced[0])}, not 16")


def check_block_sizes(nest: Nest, largest: int) -> None:
    """Refuse blocks that hold more than ``largest`` elements."""
    spatial = [n for n, group in enumerate(nest.groups) if nest.kinds[group[0]] == "spatial"]
    accesses = [
        (read.tensor, _block(nest, read))
        for stage in nest.statements
        for read in reads(stage.value)
    ]
    accesses.append(("the output", tuple(nest.group_extent(n) for n in spatial)))
    for name, extents in accesses:
        if math.prod(extents) > largest:
            raise IllegalStep(f"the block of {name} holds {math.prod(extents)} elements")


def _block(nest: Nest, read: Read) -> tuple[int, ...]:
    """Return the extents of the block of ``read``, one for each tile group that it runs along."""
    groups = {group for form in read.index for group in groups_in(nest, form)}
    return tuple(nest.group_extent(group) for group in groups)
