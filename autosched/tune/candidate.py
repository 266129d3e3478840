"""A schedule that a strategy proposes, with what it expects of it. Knows no measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill

#: Where a proposal came from: the analytic shortlist, earlier runs of the nearest workloads, a
#: random draw, the evolution of a population, the neighbourhood of the best measured so far, a walk
#: from schedule to schedule, or a list that is gone through.
Origin = Literal["analytic", "nearest", "random", "evolution", "polish", "walk", "list"]

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


def text_of(key: Key) -> str:
    """Write a key in one line, for ``key_of`` to read."""
    name, values = key
    return " ".join((name, *map(str, values)))


def key_of(text: str) -> Key:
    """Read what ``text_of`` wrote. Raises ValueError."""
    name, *values = text.split()
    return name, tuple(map(int, values))
