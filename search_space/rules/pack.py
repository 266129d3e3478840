"""Copies that come before a contraction: which operands want one, and how it runs.

A copy leaves no choices open: it moves each byte twice, and blocks of a few thousand elements
keep memory busy whatever the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from search_space import access
from search_space.dtype import size_bytes
from search_space.rules.role import Blocking
from search_space.steps import Bind, Fuse, Split, Step, Tile, Warps
from search_space.target import Target
from search_space.workload import Tensor, Workload

#: Elements of a block along rows that stay rows, and the sides of a block that is transposed.
ROW, BLOCK, SQUARE = 512, 4096, 64
#: Elements below which blocks of half the sides are needed to give all multiprocessors work.
SMALL = 2**20
#: Bytes of a row from which on a copy pads it to whole lines of L2.
LONG_ROW_BYTES = 1024
#: 16-bit operations that take as long as a byte of memory traffic on current GPUs, and the share
#: of a product's time up to which a copy is worth a trial.
OPERATIONS_A_BYTE, MOST_FOR_PADDING = 200, 0.2


def wants_packing(blocks: Blocking, tensor: Tensor, *, k_major: bool) -> bool:
    """Whether the copy engine or the tensor cores cannot take ``tensor`` as it lies: its rows
    are not whole 16 bytes, or K is not contiguous where operands of the dtype must have it so.

    A copy that is made on every run has to earn its time; the cost model weighs that. One of a
    constant operand is free, and counts for nothing in ``Structure``.
    """
    return access.row_bytes(tensor) < 16 or (wants_k_major(blocks.workload, tensor) and not k_major)


def padded_row_bytes(tensor: Tensor, order: tuple[int, ...]) -> int:
    """Return to whole how many bytes rows of a copy are padded: lines of L2, unless rows are so
    short that this would add much."""
    row_bytes = tensor.shape[order[-1]] * size_bytes(tensor.dtype)
    return access.LINE_BYTES if row_bytes >= LONG_ROW_BYTES else 16


def pays_to_pad(blocks: Blocking, tensor: Tensor) -> bool:
    """Whether rows of ``tensor`` straddle lines of L2, and copying them takes little time."""
    copied = 2 * tensor.size_bytes * OPERATIONS_A_BYTE
    return (
        access.straddles(tensor)
        and access.row_bytes(tensor) == 16
        and copied < MOST_FOR_PADDING * blocks.workload.operations
    )


def wants_k_major(workload: Workload, tensor: Tensor) -> bool:
    """Whether wgmma reads operands of this dtype with K contiguous alone (PTX ISA: only 16-bit
    types may be transposed in shared memory)."""
    is_tf32 = tensor.dtype == "float32" and workload.precision != "ieee"
    return is_tf32 or size_bytes(tensor.dtype) == 1


def is_plain(blocks: Blocking, target: Target) -> bool:
    """Whether the product is formed by multiply-adds of single lanes, without tensor cores."""
    dtypes = {blocks.a.dtype, blocks.b.dtype}
    return (
        dtypes == {"float32"} and blocks.workload.precision == "ieee" and target.backend == "cuda"
    )


def packed_order(tensor: Tensor, last: int | None) -> tuple[int, ...]:
    """Return the order of the packed copy: as it lies, or with dimension ``last`` at the end."""
    dimensions = tuple(range(len(tensor.shape)))
    return dimensions if last is None else (*(d for d in dimensions if d != last), last)


def turning_square(tensor: Tensor) -> int:
    """Return the side of the blocks in which an operand for plain dots is transposed."""
    return SQUARE if prod(tensor.shape) >= SMALL else SQUARE // 2


def packing_steps(
    tensor: Tensor, order: tuple[int, ...], nest: int, square: int = SQUARE
) -> Iterator[Step]:
    """Yield the steps of the nest that copies: its axes are d0, d1, ... by dimension.

    Dimensions that stay side by side are walked as one. A copy that transposes does so in blocks
    of ``square`` x ``square`` elements, or as many in longer ones where an axis is short.
    """
    runs = _runs(tensor, order)
    names = {run: "_".join(f"d{d}" for d in run) for run in runs}
    for run in runs:
        if len(run) > 1:
            yield Fuse(tuple(f"d{d}" for d in run), names[run], nest)
    last = (order[-1],)
    *outer, beside = [run for run in runs if run != last]
    width = min(ROW, _covering(tensor.shape[order[-1]]))
    height = _covering(prod(tensor.shape[d] for d in beside))
    if order[-1] != len(tensor.shape) - 1:
        height = min(square, height)
        width = min(square * square // height, max(square, width))
    else:
        height = min(BLOCK // width, height)
    yield Split(names[last], f"{names[last]}o", f"{names[last]}i", width, nest)
    yield Split(names[beside], f"{names[beside]}o", f"{names[beside]}i", height, nest)
    yield Tile(((f"{names[beside]}i",), (f"{names[last]}i",)), nest)
    grid = (*(names[run] for run in outer), f"{names[beside]}o", f"{names[last]}o")
    yield Bind(grid, nest=nest)
    yield Warps(4, nest)


def _runs(tensor: Tensor, order: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the dimensions of ``tensor`` in runs that lie within one another here and in the copy.

    The copy's last dimension, whose rows are padded, is a run of its own.
    """
    runs: list[tuple[int, ...]] = []
    for d in range(len(tensor.shape)):
        before = runs[-1][-1] if runs else None
        follows = before is not None and order.index(d) == order.index(before) + 1
        nested = follows and tensor.strides[d - 1] == tensor.shape[d] * tensor.strides[d]
        if nested and order[-1] not in (d, before):
            runs[-1] = (*runs[-1], d)
        else:
            runs.append((d,))
    return runs


def _covering(extent: int) -> int:
    return 1 << max(0, extent - 1).bit_length()
