"""Schedules for a workload that was not measured, from what was measured of its neighbours.

A **neighbour** computes the same over another extent of one axis: rows of a product, the batch,
images. The nearest below and the nearest above are asked, within a factor of ``REACH``. What a
schedule would take here is the analytic model's time times how wrong the model was about it there;
what torch would take follows from what it took there. Knows no tensors and no device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from autosched.runtime.catalog import Catalog, Comparison
from autosched.runtime.default import Default
from autosched.runtime.forms import form_of
from autosched.runtime.warm import stated
from cost_model.analytic_model import predict_us
from measure.record import TrialRecord
from search_space.limits import violation
from search_space.rules import NoSketch, sketches
from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload

#: How far an extent may be from the one that was measured, as a factor.
REACH = 4.0


@dataclass(frozen=True)
class Neighbour:
    """A logged workload that differs in one extent: here ``here``, there ``extent``.

    ``tried`` are its fastest trials, the one that its closing comparison chose at the front.
    """

    workload: Workload
    extent: int
    here: int
    tried: tuple[TrialRecord, ...]
    compared: Comparison | None

    @property
    def distance(self) -> float:
        """How far its extent is, in doublings."""
        return abs(math.log2(self.extent / self.here))


@dataclass(frozen=True)
class Suggestion:
    """A schedule for the workload at hand, what it should take, and whether it was measured of a
    neighbour; else the analytic model came up with it."""

    schedule: Schedule
    estimate_us: float
    measured: bool


@dataclass(frozen=True)
class Advice:
    """What the neighbours of a workload say: schedules, the fastest by estimate first, and what
    torch should take, where they were compared with it."""

    near: tuple[Neighbour, ...]
    suggestions: tuple[Suggestion, ...]
    library_us: float | None

    @property
    def where(self) -> str:
        """Say where was measured what follows here, as part of a sentence."""
        there = " and ".join(str(neighbour.extent) for neighbour in self.near)
        return f"where {self.near[0].here} is {there}"

    @property
    def library_wins(self) -> bool:
        """Whether torch should be faster than the best suggestion."""
        best = self.suggestions[0].estimate_us if self.suggestions else math.inf
        return self.library_us is not None and self.library_us < best


def advice(
    workload: Workload, catalog: Catalog, target: Target, defaults: Sequence[Default]
) -> Advice | None:
    """Return what the neighbours of ``workload`` in a log say, None where it has none.

    A neighbour's schedule counts where it is legal here. Its estimate is the model's time here
    times measured over predicted there; of one that both tried, the mean of these ratios (of
    logarithms, the nearer the heavier, by one over one plus the distance in doublings).
    ``defaults``, which nobody measured, are taken for as wrong as the model was in the median.
    """
    near = neighbours(workload, catalog)
    if not near:
        return None
    try:
        known = {sketch.name: sketch for sketch in sketches(workload, target)}
    except NoSketch:
        return None
    found: dict[str, list[tuple[float, float]]] = {}
    points: dict[str, tuple[Sketch, Mapping[str, int]]] = {}
    for neighbour in near:
        for record, wrong in _wrong(neighbour, target):
            point = _point(record, known, target)
            if point is not None:
                points.setdefault(_name(record), point)
                weight = 1 / (1 + neighbour.distance)
                found.setdefault(_name(record), []).append((math.log(wrong), weight))
    if not found:
        return None
    made = [
        Suggestion(fill(*points[name]), _predicted_us(*points[name], target) * _mean(logs), True)
        for name, logs in found.items()
    ]
    usual = median(_mean(logs) for logs in found.values())
    made += [Suggestion(d.schedule, d.predicted_us * usual, False) for d in defaults]
    made.sort(key=lambda suggestion: suggestion.estimate_us)
    return Advice(near, tuple(made), _library_us(near, made[0]))


def neighbours(workload: Workload, catalog: Catalog) -> tuple[Neighbour, ...]:
    """Return the nearest neighbour below and the nearest above, as far as there are any.

    Only workloads whose tensors lie without gaps, and that their runs state, have neighbours; the
    last axis of the output is not one that may differ.
    """
    own = form_of(workload.canonical)
    if own is None:
        return ()
    last = len(workload.output.shape) - 1
    nearest: dict[bool, tuple[float, str, int, int]] = {}
    for key, there in catalog.families.get(own.text, ()):
        axes = [n for n, (a, b) in enumerate(zip(own.extents, there, strict=True)) if a != b]
        if len(axes) != 1 or axes[0] >= last or key not in catalog.specs:
            continue
        here, extent = own.extents[axes[0]], there[axes[0]]
        distance = abs(math.log2(extent / here))
        held = nearest.get(extent > here)
        if distance <= math.log2(REACH) and (held is None or distance < held[0]):
            nearest[extent > here] = (distance, key, extent, here)
    found = []
    for _, key, extent, here in sorted(nearest.values()):
        made = stated({key: catalog.specs[key]})[key]
        if isinstance(made, Workload):
            best = catalog.best[key]
            tried = (best, *(r for r in catalog.tried.get(key, ()) if r is not best))
            found.append(Neighbour(made, extent, here, tried, catalog.compared.get(key)))
    return tuple(found)


def _wrong(neighbour: Neighbour, target: Target) -> Iterator[tuple[TrialRecord, float]]:
    """Yield what a neighbour tried, with measured over predicted time there."""
    try:
        known = {sketch.name: sketch for sketch in sketches(neighbour.workload, target)}
    except NoSketch:
        return
    chosen, *others = neighbour.tried
    compared = neighbour.compared
    settled_us = compared.ours_us if compared else chosen.latency_us
    times = [(chosen, settled_us), *((record, record.latency_us) for record in others)]
    for record, measured_us in times:
        point = _point(record, known, target)
        if point is not None and measured_us:
            # What lost the closing comparison is no faster, whatever a single timing said.
            least = measured_us if record is chosen else max(measured_us, settled_us or 0.0)
            yield record, least / _predicted_us(*point, target)


def _library_us(near: Sequence[Neighbour], best: Suggestion) -> float | None:
    """Estimate torch's time: between two neighbours that were compared with it by the extent, in
    logarithms; beside one, by how the best suggestion's time should change."""
    known = [(n, n.compared) for n in near if n.compared is not None]
    if not known:
        return None
    if len(known) == 2:
        (one, a), (other, b) = known
        span = math.log(other.extent / one.extent)
        share = math.log(one.here / one.extent) / span
        return math.exp((1 - share) * math.log(a.library_us) + share * math.log(b.library_us))
    [(one, compared)] = known
    return compared.library_us * best.estimate_us / compared.ours_us


def _mean(logs: Sequence[tuple[float, float]]) -> float:
    """Return the weighted geometric mean, of pairs of a logarithm and a weight."""
    weights = sum(weight for _, weight in logs)
    return math.exp(sum(value * weight for value, weight in logs) / weights)


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
