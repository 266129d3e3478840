"""Schedules for a workload that was not measured, from what was measured of its neighbours.

A **neighbour** computes the same over one other extent of one axis: rows of a product, the batch,
images. Its extent is within a factor of ``REACH``, on either side. Which of its schedules is to
serve here is decided by what the log knows: of each schedule that the nearest neighbours tried, how
much slower it was there than the best. Knows no tensors and no device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.runtime.catalog import Catalog
from autosched.runtime.forms import form_of
from cost_model.analytic_model import predict_us
from measure.record import TrialRecord
from search_space.limits import violation
from search_space.rules import NoSketch, sketches
from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload

#: How far an extent may be from the one that was measured, as a factor.
REACH = 2.0
#: The least slowdown of what was not chosen: less is noise.
NEXT_TO_BEST = 1.01


@dataclass(frozen=True)
class Neighbour:
    """A logged workload that differs in one extent: here ``here``, there ``extent``."""

    key: str
    extent: int
    here: int
    best: TrialRecord
    tried: tuple[TrialRecord, ...]

    @property
    def distance(self) -> float:
        """How far its extent is, in doublings."""
        return abs(math.log2(self.extent / self.here))


@dataclass(frozen=True)
class Suggestion:
    """A schedule for the workload at hand, and where it comes from, as part of a sentence."""

    schedule: Schedule
    reason: str


def suggestions(
    workload: Workload, near: Sequence[Neighbour], target: Target
) -> Iterator[Suggestion]:
    """Yield legal schedules for ``workload`` from its neighbours in a log, the likeliest first.

    A schedule's score is the mean over the neighbours, the nearer the heavier (by one over one
    plus the distance in doublings), of the logarithm of its slowdown: its time over the best of
    that neighbour; where a neighbour did not try it, the analytic model's time here over the
    best candidate's.
    """
    if not near:
        return
    try:
        known = {sketch.name: sketch for sketch in sketches(workload, target)}
    except NoSketch:
        return
    slowdowns = [_slowdowns(neighbour) for neighbour in near]
    candidates: dict[str, tuple[Sketch, Mapping[str, int]]] = {}
    for neighbour in near:
        for record in (neighbour.best, *neighbour.tried):
            made = _point(record, known, target)
            if made is not None:
                candidates.setdefault(_name(record), made)
    if not candidates:
        return
    predicted = {name: _predicted_us(*made, target) for name, made in candidates.items()}
    least = min(predicted.values())
    weights = [1 / (1 + neighbour.distance) for neighbour in near]

    def score(name: str) -> float:
        opinion = predicted[name] / least
        logs = [math.log(slow.get(name, opinion)) for slow in slowdowns]
        return sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights)

    there = " and ".join(str(neighbour.extent) for neighbour in near)
    for name in sorted(candidates, key=lambda name: (score(name), predicted[name], name)):
        sketch, choices = candidates[name]
        yield Suggestion(
            fill(sketch, choices),
            f"measured where {near[0].here} is {there}, by {sketch.name}",
        )


def neighbours(workload: Workload, catalog: Catalog) -> tuple[Neighbour, ...]:
    """Return the nearest neighbour below and the nearest above, as far as there are any.

    Only workloads whose tensors lie without gaps have neighbours; the last axis of the output is
    not one that may differ.
    """
    own = form_of(workload.canonical)
    if own is None:
        return ()
    extents = own.extents
    last = len(workload.output.shape) - 1
    found: dict[bool, Neighbour] = {}
    for key, there in catalog.families.get(own.text, ()):
        axes = [n for n, (a, b) in enumerate(zip(extents, there, strict=True)) if a != b]
        if len(axes) != 1 or axes[0] >= last:
            continue
        extent, here = there[axes[0]], extents[axes[0]]
        made = Neighbour(key, extent, here, catalog.best[key], catalog.tried.get(key, ()))
        above = made.extent > made.here
        if made.distance > math.log2(REACH) or not made.tried:
            continue
        if above not in found or made.distance < found[above].distance:
            found[above] = made
    return tuple(sorted(found.values(), key=lambda neighbour: neighbour.distance))


def _slowdowns(neighbour: Neighbour) -> dict[str, float]:
    """Return by schedule how much slower it was than the best of a neighbour.

    What the closing comparison chose there is the best, whatever a search's single timing said.
    """
    times = {_name(record): record.latency_us for record in neighbour.tried if record.latency_us}
    best = min(times.values())
    slowdowns = {name: max(us / best, NEXT_TO_BEST) for name, us in times.items()}
    return slowdowns | {_name(neighbour.best): 1.0}


def _name(record: TrialRecord) -> str:
    """Return what tells a schedule's sketch and choices from others."""
    choices = record.schedule.get("choices")
    held = sorted(choices.items()) if isinstance(choices, dict) else ()
    return f"{record.schedule.get('sketch')} {held}"


def _point(
    record: TrialRecord, known: Mapping[str, Sketch], target: Target
) -> tuple[Sketch, Mapping[str, int]] | None:
    """Return a record's sketch and choices for the workload at hand, if they are legal there."""
    sketch = known.get(str(record.schedule.get("sketch")))
    choices = record.schedule.get("choices")
    if sketch is None or not isinstance(choices, dict) or set(choices) != set(sketch.names):
        return None
    if any(choices[c.name] not in c.domain for c in sketch.choices):
        return None
    return None if violation(sketch, choices, target) else (sketch, choices)


def _predicted_us(sketch: Sketch, choices: Mapping[str, int], target: Target) -> float:
    row = np.array([[choices[name] for name in sketch.names]], dtype=np.int64)
    return float(predict_us(sketch, row, target)[0])
