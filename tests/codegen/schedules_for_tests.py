"""Schedules for tests: one typical point of each sketch, and legal random ones."""

import random
from collections.abc import Iterator, Mapping

from search_space.limits import violation
from search_space.rules import sketches
from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload

TYPICAL = {
    "tile_m": 64,
    "tile_n": 64,
    "tile_k": 32,
    "stages": 3,
    "warps": 4,
    "group": 4,
    "parts": 2,
    "split": 4,
    "ctas": 1,
    "tile_i": 1,
    "tile_d": 1,
    "tile_y": 4,
    "tile_x": 16,
}


def near(sketch: Sketch, wish: Mapping[str, int]) -> dict[str, int]:
    """Return the largest choices that do not pass ``wish``."""
    return {
        c.name: max([v for v in c.domain if v <= wish[c.name]], default=c.domain[0])
        for c in sketch.choices
    }


def typical(workload: Workload, target: Target, **wish: int) -> Iterator[tuple[Sketch, Schedule]]:
    """Yield one schedule of each sketch."""
    for sketch in sketches(workload, target):
        yield sketch, fill(sketch, near(sketch, {**TYPICAL, **wish}))


def random_legal(
    workload: Workload, target: Target, rng: random.Random, block: int = 64
) -> Iterator[tuple[Sketch, Schedule]]:
    """Yield one legal random schedule of each sketch that has one, blocks at most ``block``."""
    for sketch in sketches(workload, target):
        for _ in range(200):
            choices = {c.name: rng.choice(c.domain) for c in sketch.choices}
            small = all(choices[name] <= block for name in ("tile_m", "tile_n", "tile_k"))
            if small and violation(sketch, choices, target) is None:
                yield sketch, fill(sketch, choices)
                break
