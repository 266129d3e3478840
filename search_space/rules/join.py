"""The second nest of a split reduction: partial sums added up, the epilogue applied, no choices
left open: it moves few bytes, and blocks sized to fill the GPU serve every case."""

from __future__ import annotations

import math
from collections.abc import Iterator

from search_space.rules.role import Blocking
from search_space.steps import Bind, Fuse, Split, Step, Tile, Warps
from search_space.target import Target

#: Elements of one block: few enough to spread a small output, enough to keep four warps busy.
LEAST_BLOCK, LARGEST_BLOCK = 128, 1024
LARGEST_ROW = 256


def join_steps(blocks: Blocking, target: Target) -> Iterator[Step]:
    """Yield the steps of nest 1: the block's axes in blocks again, the rest on the grid."""
    rows, columns = blocks.m, blocks.n
    total = math.prod(blocks.workload.output.shape)
    block = _clamp(_power_below(total // target.multiprocessors), LEAST_BLOCK, LARGEST_BLOCK)
    width = _clamp(_power_above(columns.extent), 1, min(LARGEST_ROW, block))
    height = _clamp(_power_above(rows.extent), 1, max(1, block // width))
    for name, axes in blocks.fused.items():
        if name in (rows.name, columns.name):
            yield Fuse(tuple(axis.name for axis in axes), name, nest=1)
    names = {(axis, end): blocks.name(axis, end) for axis in (rows, columns) for end in "01"}
    yield Split(rows.name, names[rows, "0"], names[rows, "1"], height, nest=1)
    yield Split(columns.name, names[columns, "0"], names[columns, "1"], width, nest=1)
    yield Tile(((names[rows, "1"],), (names[columns, "1"],)), nest=1)
    others = tuple(axis.name for axis in blocks.others)
    yield Bind((*others, names[rows, "0"], names[columns, "0"]), nest=1)
    yield Warps(4, nest=1)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _power_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


def _power_below(value: int) -> int:
    return 1 << max(0, value.bit_length() - 1)
