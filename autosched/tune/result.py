"""What a tuning run found. Data only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from autosched.tune.candidate import Candidate
from autosched.tune.events import Stop
from measure.comparison import Comparison, Ratio
from measure.measurement import Failed, Measurement, Timed, Timing
from measure.service import DeviceInfo
from search_space.program import Program
from search_space.workload import Workload


@dataclass(frozen=True)
class Trial:
    """One attempt: its number in the order of proposals, its batch, and what came of it.

    ``program`` is None where the schedule did not render.
    """

    number: int
    round: int
    candidate: Candidate
    program: Program | None
    measurement: Measurement

    @property
    def latency_us(self) -> float | None:
        """The median time in microseconds, or None if it failed."""
        return self.measurement.latency_us if isinstance(self.measurement, Timed) else None


@dataclass(frozen=True)
class Best:
    """The winner: its trial, the time it won with, and the library's time over its own.

    ``ties`` are the other trials that could not be told apart from it in the finals.
    """

    trial: Trial
    timing: Timing
    ratio_to_library: Ratio | None
    predicted: bool
    ties: tuple[Trial, ...]


@dataclass(frozen=True)
class TuningResult:
    """All trials of a run in the order of proposals, and the best; None if every one failed."""

    workload: Workload
    target: str
    device: DeviceInfo
    trials: tuple[Trial, ...]
    best: Best | None
    comparison: Comparison | None
    stopped: Stop
    elapsed_s: float
    #: How many of the trials were taken from the log.
    recorded: int = 0

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the run."""
        return self.stopped == "interrupted"

    @property
    def failures(self) -> Mapping[str, int]:
        """Failures by kind."""
        failed = (t.measurement for t in self.trials if isinstance(t.measurement, Failed))
        return Counter(f.kind.value for f in failed)

    @property
    def trials_per_s(self) -> float:
        """Attempts a second made now, finals included in the time."""
        return (len(self.trials) - self.recorded) / self.elapsed_s if self.elapsed_s > 0 else 0.0


def fastest(trials: tuple[Trial, ...] | list[Trial], count: int) -> list[Trial]:
    """Return the ``count`` fastest trials, ties in the order of proposals.

    Those timed on a device that was disturbed come behind all others.
    """
    timed = [
        (trial.measurement.quarantined, trial.latency_us, trial.number, trial)
        for trial in trials
        if isinstance(trial.measurement, Timed)
    ]
    return [trial for *_, trial in sorted(timed, key=lambda entry: entry[:3])[:count]]
