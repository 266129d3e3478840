"""What happens in a tuning run, as values for whoever shows it. Knows no screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autosched.tune.candidate import Candidate
from measure.comparison import Comparison
from measure.measurement import Measurement
from measure.service import DeviceInfo

#: Why a run ended: all trials done, its own or those of all tasks of a command; time spent; no gain
#: for long; nothing new to propose; or the user's wish.
Stop = Literal["trials", "total trials", "budget", "early stopping", "exhausted", "interrupted"]


@dataclass(frozen=True)
class Progress:
    """How far a run has come. ``failures`` counts by kind; rates are of what is measured now.

    ``trials`` are attempts with an outcome, ``built`` those of them that compiled. ``left_s`` is
    an estimate, None before the first outcome.
    """

    trials: int
    total: int
    built: int
    failures: Mapping[str, int]
    incumbent_us: float | None
    elapsed_s: float
    trials_per_s: float
    left_s: float | None


@dataclass(frozen=True)
class RunStarted:
    """A run of so many trials begins on this device; ``recorded`` of them are in the log."""

    label: str
    device: DeviceInfo
    trials: int
    recorded: int = 0


@dataclass(frozen=True)
class LibraryTimed:
    """What the search is up against, in microseconds."""

    latency_us: float


@dataclass(frozen=True)
class RoundStarted:
    """A batch was handed to builders and runner."""

    round: int
    proposed: int


@dataclass(frozen=True)
class TrialDone:
    """A candidate has an outcome; ``improved`` says that it is the new incumbent."""

    trial: int
    candidate: Candidate
    measurement: Measurement
    improved: bool
    progress: Progress


@dataclass(frozen=True)
class RoundDone:
    """Every candidate of a batch has an outcome."""

    round: int
    progress: Progress


@dataclass(frozen=True)
class FinalsStarted:
    """The best are measured again in turns, with the library's own kernel."""

    entrants: int


@dataclass(frozen=True)
class FinalsDone:
    """The best are ranked."""

    comparison: Comparison


@dataclass(frozen=True)
class RunDone:
    """The run ended, and why."""

    stopped: Stop
    progress: Progress


Event = (
    RunStarted
    | LibraryTimed
    | RoundStarted
    | TrialDone
    | RoundDone
    | FinalsStarted
    | FinalsDone
    | RunDone
)
