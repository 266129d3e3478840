"""How fast features are computed: python -m autosched.bench.feature_speed SPEC...

One process, one sketch after another, populations of the size that a search scores at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import click
import numpy as np

from autosched.spec import load
from autosched.tune.grid import Grid
from cost_model.features import features
from search_space import target as targets
from search_space.rules import sketches
from search_space.target import Target

#: Candidates of a sketch that are scored together, and times that it is done.
POPULATION = 1024
REPEATS = 3


@dataclass(frozen=True)
class Speed:
    """One sketch of one workload, and its candidates per second, the best of ``REPEATS``."""

    label: str
    sketch: str
    per_s: float


def speeds(specs: tuple[str, ...], target: Target) -> Iterator[Speed]:
    """Yield the speed of every sketch of every workload."""
    for task in (task for spec in specs for task in load(spec)):
        for sketch in sketches(task.workload, target):
            grid = Grid(sketch, target)
            codes = grid.random(POPULATION, np.random.default_rng(0))
            if not len(codes):
                continue
            matrix = grid.values(np.resize(codes, POPULATION))
            taken = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                features(sketch, matrix, target)
                taken.append(time.perf_counter() - start)
            yield Speed(task.workload.label or task.id, sketch.name, POPULATION / min(taken))


@click.command()
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
@click.option("--target", metavar="NAME", default="h200", show_default=True)
def main(specs: tuple[str, ...], target: str) -> None:
    """Say how many candidates a second the features of every sketch of SPEC... take."""
    found = sorted(speeds(specs, targets.load(target)), key=lambda speed: speed.per_s)
    whole = len(found) / sum(1 / speed.per_s for speed in found)
    click.echo(f"{len(found)} sketches: {whole:,.0f} candidates/s; the slowest:")
    for speed in found[:5]:
        click.echo(f"  {speed.per_s:>9,.0f}  {speed.label}, {speed.sketch}")


if __name__ == "__main__":
    main()
