"""A schedule that a strategy proposes, with what it expects of it. Knows no measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill

#: Where a proposal came from: the analytic shortlist, a random draw, the evolution of a
#: population, or the neighbourhood of the best measured so far.
Origin = Literal["analytic", "random", "evolution", "polish"]

#: A sketch's name and the values of its choices in order: equal means the same schedule.
Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Candidate:
    """Choices of a sketch and their score, the predicted ``log(t_roof / t)``."""

    sketch: Sketch
    choices: Mapping[str, int]
    score: float
    origin: Origin

    @property
    def key(self) -> Key:
        """What tells this schedule from others of the same workload."""
        return self.sketch.name, tuple(self.choices[name] for name in self.sketch.names)

    @property
    def schedule(self) -> Schedule:
        """The schedule that the choices make."""
        return fill(self.sketch, self.choices)
