"""Computations that reduce nothing: every element of the output by itself.

Dimensions that every tensor stores as one are fused, so that a block is a run of memory. Where an
input lies across the output, blocks are squares, which are turned on chip.
"""

from __future__ import annotations

from collections.abc import Iterator

from search_space.expr import Read, reads
from search_space.rules.plain import WARPS, Plan, legal_sketches, powers, runs
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Axis, Workload


def elementwise_sketches(workload: Workload, _target: Target) -> tuple[Sketch, ...] | str:
    """Return the sketches, or one sentence on why none applies."""
    if len(workload.stages) > 1 or workload.stages[0].reducer:
        return f"its first stage reduces, into {workload.stages[0].output!r}"
    if any(not form.single for form in workload.stages[0].index):
        return "it stores at other positions than plain axes"
    return legal_sketches(_plans(workload)) or "no schedule is legal"


def _plans(workload: Workload) -> Iterator[Plan]:
    groups = runs([axis for axis in workload.axes if axis.extent > 1], workload)
    if not groups:
        groups = [workload.axes[-1:]]
    *outer, n = groups
    if not outer:
        domains = {"tile_n": powers(128, 16384, _extent(n)), "warps": WARPS}
        yield Plan("elementwise", workload, domains, n=n)
        return
    m = _across(workload, groups) or outer[-1]
    domains = {
        "tile_m": powers(1, 128, _extent(m)),
        "tile_n": powers(16, 4096, _extent(n)),
        "warps": WARPS,
    }
    yield Plan("elementwise.blocks", workload, domains, m=m, n=n)


def _across(workload: Workload, groups: list[tuple[Axis, ...]]) -> tuple[Axis, ...] | None:
    """Return the axes that run along the rows of an input where those of the output do not."""
    for read in reads(workload.stages[0].value):
        for group in groups[:-1]:
            if _last(read) == group[-1].name and workload.tensors[read.tensor].strides[-1] == 1:
                return group
    return None


def _last(read: Read) -> str | None:
    return read.index[-1].single if read.index else None


def _extent(axes: tuple[Axis, ...]) -> int:
    extent = 1
    for axis in axes:
        extent *= axis.extent
    return extent
