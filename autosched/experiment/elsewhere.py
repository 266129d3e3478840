"""What an arm knows of other workloads before it starts. Sees no outcome of its own landscape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from autosched.experiment.outcomes import Outcomes
from autosched.landscape import Point
from autosched.tune.candidate import Key
from search_space.sketch import Sketch

#: Workloads that count as nearest, and schedules that are taken over from each.
WORKLOADS, SCHEDULES = 2, 16


def nearest(outcomes: Outcomes, others: Sequence[Outcomes]) -> tuple[Key, ...]:
    """Return schedules of ``outcomes`` like those that did best on the nearest workloads.

    The best of each workload in turn. One that was not recorded here stands for the recorded one
    of the same sketch that differs by the fewest doublings of choices, as a search that measures
    would take it as it is.
    """
    by_distance = sorted(others, key=lambda other: (distance(outcomes, other), other.name))
    best = [_best(other) for other in by_distance[:WORKLOADS]]
    found: dict[Key, None] = {}
    for rank in zip_longest(*best):
        for point in rank:
            like = None if point is None else _like(point, outcomes)
            if like is not None:
                found[like.key] = None
    return tuple(found)


def distance(one: Outcomes, other: Outcomes) -> float:
    """Return how far apart the shapes of two workloads are, in doublings of extents."""
    pairs = zip(_shape(one), _shape(other), strict=True)
    return sum(abs(math.log2(a / b)) for a, b in pairs)


def _shape(outcomes: Outcomes) -> tuple[int, ...]:
    held = outcomes.grids[0].sketch.structure
    return held.batch, held.m, held.n, held.k


def _best(outcomes: Outcomes) -> list[Point]:
    timed = [p for p in outcomes.distinct if p.latency_us is not None]
    return sorted(timed, key=lambda p: (p.latency_us, p.key))[:SCHEDULES]


def _like(point: Point, outcomes: Outcomes) -> Point | None:
    near = list(_same_sketch(point.sketch, outcomes))
    return min(near, key=lambda p: (_doublings(p, point), p.key), default=None)


def _same_sketch(sketch: Sketch, outcomes: Outcomes) -> Iterator[Point]:
    for point in outcomes.points:
        if point.sketch.name == sketch.name and point.sketch.names == sketch.names:
            yield point


def _doublings(one: Point, other: Point) -> float:
    pairs = zip(one.choices, other.choices, strict=True)
    return sum(abs(math.log2((1 + a) / (1 + b))) for a, b in pairs)
