"""Legal schedules for a workload that nothing was measured for. Knows no log and no device."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cost_model.analytic_model import predict_us
from search_space.rules import NoSketch, sketches
from search_space.sample import neighbours, random_choices
from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload

#: Legal points drawn per sketch before the descent, and the most steps of the descent.
SAMPLES = 64
DESCENTS = 16
#: Workloads whose defaults are kept; beyond, all are forgotten.
MOST_KNOWN = 512


@dataclass(frozen=True)
class Default:
    """A schedule that the analytic model likes, and the time it predicts, in microseconds."""

    schedule: Schedule
    predicted_us: float


def default_schedules(workload: Workload, target: Target) -> tuple[Default, ...]:
    """Return the best predicted schedule of every sketch, best first; empty where none applies.

    The same workload and target give the same schedules: the draw is seeded by the key. They are
    kept, as the draw takes a second.
    """
    key = (workload.key, target.name)
    if (known := _known.get(key)) is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[key] = _drawn(workload, target)
    return known


def _drawn(workload: Workload, target: Target) -> tuple[Default, ...]:
    try:
        known = sketches(workload, target)
    except NoSketch:
        return ()
    rng = random.Random(workload.key)  # a string seeds the same on every machine
    found = [best for sketch in known if (best := _best_of(sketch, target, rng))]
    return tuple(sorted(found, key=lambda default: default.predicted_us))


def _best_of(sketch: Sketch, target: Target, rng: random.Random) -> Default | None:
    drawn = [random_choices(sketch, target, rng) for _ in range(SAMPLES)]
    legal = [choices for choices in drawn if choices is not None]
    if not legal:
        return None
    choices, time_us = _fastest(sketch, legal, target)
    for _ in range(DESCENTS):
        around = list(neighbours(sketch, choices, target))
        if not around:
            break
        nearby, nearby_us = _fastest(sketch, around, target)
        if nearby_us >= time_us:
            break
        choices, time_us = nearby, nearby_us
    return Default(fill(sketch, choices), time_us)


def _fastest(
    sketch: Sketch, points: Sequence[Mapping[str, int]], target: Target
) -> tuple[Mapping[str, int], float]:
    matrix = np.array([[point[name] for name in sketch.names] for point in points], dtype=np.int64)
    times_us = predict_us(sketch, matrix, target)
    best = int(np.argmin(times_us))
    return points[best], float(times_us[best])


#: By the key of a workload and the name of a target.
_known: dict[tuple[str, str], tuple[Default, ...]] = {}
