"""The second nest of a split reduction: partial sums added up, the epilogue applied, no choices
left open: it moves few bytes, and blocks sized to fill the GPU serve every case."""

from __future__ import annotations

from collections.abc import Iterator

from search_space.steps import Bind, Split, Step, Tile, Warps
from search_space.target import Target
from search_space.workload import Workload

#: Elements of one block: few enough to spread a small output, enough to keep four warps busy.
LEAST_BLOCK, LARGEST_BLOCK = 128, 1024
LARGEST_ROW = 256


def join_steps(workload: Workload, target: Target) -> Iterator[Step]:
    """Yield the steps of nest 1: the last two axes of the output in blocks, the rest on the grid."""
    axes = [axis for axis in workload.axes if axis.kind == "spatial"]
    *rest, rows, columns = axes if len(axes) > 1 else (axes[0], axes[0])
    total = 1
    for axis in axes:
        total *= axis.extent
    block = _clamp(_power_below(total // target.multiprocessors), LEAST_BLOCK, LARGEST_BLOCK)
    width = _clamp(_power_above(columns.extent), 1, min(LARGEST_ROW, block))
    height = _clamp(_power_above(rows.extent), 1, max(1, block // width))
    yield Split(rows.name, f"{rows.name}0", f"{rows.name}1", height, nest=1)
    yield Split(columns.name, f"{columns.name}0", f"{columns.name}1", width, nest=1)
    yield Tile(((f"{rows.name}1",), (f"{columns.name}1",)), nest=1)
    others = tuple(axis.name for axis in rest)
    yield Bind((*others, f"{rows.name}0", f"{columns.name}0"), nest=1)
    yield Warps(4, nest=1)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _power_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


def _power_below(value: int) -> int:
    return 1 << max(0, value.bit_length() - 1)
