"""What a strategy is: it is asked for candidates and told what came of them. It never measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosched.tune.candidate import Candidate
from measure.measurement import Measurement, Timed
from search_space.program import Program
from search_space.sketch import Sketch


@dataclass(frozen=True)
class Told:
    """What came of a candidate."""

    candidate: Candidate
    measurement: Measurement

    @property
    def latency_us(self) -> float | None:
        """The median time in microseconds, or None if it failed."""
        return self.measurement.latency_us if isinstance(self.measurement, Timed) else None


class OutcomesBySchedule(Protocol):
    """Knows outcomes by schedule, for a device that is given programs alone."""

    def learn(self, candidate: Candidate, program: Program) -> None:
        """Remember which candidate ``program`` was rendered from."""


class Strategy(Protocol):
    """Proposes schedules. Its proposals depend on its arguments and on what it was told only."""

    name: str

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The arguments that proposals depend on beside sketches and target, for the log, as plain
        data. Those of a cost model are called ``model_*``."""

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` legal candidates, none proposed before.

        Fewer come back only where nothing new was found; none when the space is exhausted.
        """

    def tell(self, told: Sequence[Told]) -> None:
        """Learn what came of candidates, in the order they were proposed."""
