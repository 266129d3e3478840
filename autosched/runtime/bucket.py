"""Buckets of extents: one program for every extent of a free axis up to the bucket's end.

Ends are geometric: multiples of a quarter of the power of two below, and of 16 at the least: 16,
32, 48, ... 128, 160, 192, 224, 256, 320 and so on. So at most a fifth of the slices that a program
computes are beyond the tensor, from 64 on. Knows no tensors and no device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.codegen.render import render
from autosched.runtime.catalog import Catalog
from autosched.runtime.related import advice
from search_space.apply import IllegalStep
from search_space.extent import CannotNarrow, free_axes, narrowed, resized
from search_space.program import Program
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload

#: Ends per doubling, and the least distance of two.
STEPS = 4
LEAST = 16
#: How much more a program for the whole bucket may take than one compiled for the extent at hand.
MOST_SLOWDOWN = 1.25
#: Schedules of a bucket's end that are looked at: some may not be narrowed.
MOST_LOOKED_AT = 16


@dataclass(frozen=True)
class Narrowed:
    """A program for a bucket's end, bound to the extent at hand; what it takes at the end, in
    microseconds, and part of a sentence on where that is from."""

    schedule: Schedule
    program: Program
    estimate_us: float
    reason: str


def end_of(extent: int) -> int:
    """Return the end of the bucket that ``extent`` is in."""
    below = 1 << (max(extent - 1, 1).bit_length() - 1)
    step = max(LEAST, below // STEPS)
    return -(-extent // step) * step


def narrowing(workload: Workload, catalog: Catalog, target: Target) -> Narrowed | None:
    """Return the fastest, by what the log knows, that serves all of the bucket of ``workload``.

    None where the log knows nothing of a bucket's end, or no schedule can be narrowed. The last
    axis of the output is not one that has buckets.
    """
    rank = len(workload.output.shape)
    outer = [axis.name for axis in workload.axes[: rank - 1]]
    for axis in (name for name in free_axes(workload) if name in outer):
        try:
            end = resized(workload, axis, end_of(workload.extents[axis]))
        except CannotNarrow:
            return None
        for schedule, estimate_us, where in _known(end, axis, catalog, target):
            try:
                program = narrowed(render(end, schedule, target), end, axis, workload)
            except (IllegalStep, CannotNarrow):
                continue
            reason = f"{schedule.sketch}, {where}, serves all up to {end.extents[axis]}"
            return Narrowed(schedule, program, estimate_us, reason)
    return None


def _known(
    end: Workload, axis: str, catalog: Catalog, target: Target
) -> Iterator[tuple[Schedule, float, str]]:
    """Yield schedules for a bucket's end with their times: measured, else by its neighbours."""
    best = catalog.best.get(end.key)
    if best is not None and best.workload.text == end.canonical:
        compared = catalog.compared.get(end.key)
        settled_us = compared.ours_us if compared else best.latency_us or 0.0
        others = (r for r in catalog.tried.get(end.key, ()) if r is not best)
        for record in (best, *others):
            try:
                schedule = Schedule.from_data(record.schedule)
            except BadSchedule:
                continue
            # What lost the closing comparison is no faster, whatever a single timing said.
            time_us = settled_us if record is best else max(record.latency_us or 0.0, settled_us)
            yield schedule, time_us, f"as measured where {end.extents[axis]} is the extent"
        return
    advised = advice(end, catalog, target, ())
    if advised is not None and advised.near[0].here == end.extents[axis]:
        for suggestion in advised.suggestions[:MOST_LOOKED_AT]:
            yield suggestion.schedule, suggestion.estimate_us, f"as measured {advised.where}"
