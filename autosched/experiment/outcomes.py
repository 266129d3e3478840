"""Where the outcomes of an experiment come from: a landscape that was recorded, or one made up.

Either is a table of schedules with what came of each, of which a strategy sees the grids alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autosched.landscape import Landscape, Point
from autosched.tune.candidate import Candidate, Key
from autosched.tune.earlier import facts_of
from autosched.tune.grid import Grid
from autosched.tune.recorded_grid import RecordedGrid
from cost_model.dataset import Dataset, Observation, build
from cost_model.machine import roofline_us
from measure.measurement import Failed, Measurement, Timed
from search_space.refusal import IllegalStep
from search_space.target import Target
from search_space.workload import Workload


@dataclass(frozen=True)
class Outcomes:
    """A table of schedules of one workload and what came of each.

    ``predicted`` says that times were made up; ``gpu`` names what measured them.
    """

    name: str
    workload: Workload
    target: Target
    points: tuple[Point, ...]
    grids: tuple[Grid, ...]
    gpu: str
    predicted: bool

    @staticmethod
    def of(landscape: Landscape) -> Outcomes:
        """Return the table of a landscape."""
        return Outcomes(
            name=landscape.name,
            workload=landscape.workload,
            target=landscape.target,
            points=landscape.points,
            grids=tuple(RecordedGrid.all_of(landscape)),
            gpu=landscape.head.gpu,
            predicted=landscape.head.device == "model",
        )

    @cached_property
    def by_key(self) -> Mapping[Key, Point]:
        """The points by their keys."""
        return {point.key: point for point in self.points}

    @cached_property
    def optimum_us(self) -> float:
        """The best known: the least time of an undisturbed device; infinite if all failed."""
        return min((t.latency_us for t in self.timed if not t.quarantined), default=float("inf"))

    @property
    def timed(self) -> Sequence[Timed]:
        """The outcomes that are times."""
        return [p.outcome for p in self.points if isinstance(p.outcome, Timed)]

    @cached_property
    def roof_us(self) -> float:
        """The least time that the target's rates allow the workload, in microseconds."""
        return float(roofline_us(self.workload, self.target))

    @cached_property
    def distinct(self) -> Sequence[Point]:
        """The points less those whose program is another's: what a search can try."""
        held: dict[str, Point] = {}
        for n, point in enumerate(self.points):
            held.setdefault(point.fingerprint or f"refused {n}", point)
        return list(held.values())

    @property
    def random_us(self) -> NDArray[np.float64]:
        """What a draw at random brings [programs]: its time, or the worst time where it has none
        that counts."""
        times = [_counting_us(point) for point in self.distinct]
        worst = max((t for t in times if t is not None), default=float("nan"))
        return np.array([worst if t is None else t for t in times])

    def fingerprint(self, candidate: Candidate) -> str:
        """Return the fingerprint of a candidate's program; raises IllegalStep if it has none."""
        point = self.by_key[candidate.key]
        if not point.fingerprint:
            detail = point.outcome.detail if isinstance(point.outcome, Failed) else ""
            raise IllegalStep(detail or "it did not render")
        return point.fingerprint

    @cached_property
    def observations(self) -> Sequence[Observation]:
        """What a model may learn from: all but times of a disturbed device."""
        return [_observation(p) for p in self.points if not _disturbed(p.outcome)]

    @cached_property
    def dataset(self) -> Dataset:
        """The rows of ``observations``."""
        return build(self.observations, self.target)


def _counting_us(point: Point) -> float | None:
    return None if _disturbed(point.outcome) else point.latency_us


def _disturbed(outcome: Measurement) -> bool:
    return isinstance(outcome, Timed) and outcome.quarantined


def _observation(point: Point) -> Observation:
    choices = dict(zip(point.sketch.names, point.choices, strict=True))
    facts = facts_of(point.outcome.facts)
    return Observation(point.sketch, choices, point.latency_us, facts)
