"""The attempts of a run and how far it has come, as they arrive. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from autosched.tune.events import Progress
from autosched.tune.result import Trial
from measure.measurement import Failed, Failure


class Ledger:
    """Outcomes in the order they come. ``clock`` gives seconds that never go back."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        self._started_s = clock()
        self._recorded = 0
        self._trials: list[Trial] = []
        self._failures: Counter[str] = Counter()
        self._incumbent: Trial | None = None

    def enter(self, trial: Trial, *, recorded: bool = False) -> bool:
        """Take in an outcome; say whether it is the new incumbent.

        ``recorded`` ones come from the log: no time was spent on them now.
        """
        self._trials.append(trial)
        self._recorded += recorded
        if isinstance(trial.measurement, Failed):
            self._failures[trial.measurement.kind.value] += 1
            return False
        if self.incumbent_us is None or trial.measurement.latency_us < self.incumbent_us:
            self._incumbent = trial
            return True
        return False

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The attempts in the order they were proposed."""
        return tuple(sorted(self._trials, key=lambda trial: trial.number))

    @property
    def incumbent_us(self) -> float | None:
        """The best time so far."""
        return self._incumbent.latency_us if self._incumbent else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began, or went on."""
        return self._clock() - self._started_s

    @property
    def measured(self) -> int:
        """Attempts made now, and not taken from the log."""
        return len(self._trials) - self._recorded

    def progress(self) -> Progress:
        """Return how far the run has come."""
        done, measured, elapsed_s = len(self._trials), self.measured, self.elapsed_s
        unbuilt = self._failures[Failure.COMPILE] + self._failures[Failure.CONSTRAINTS]
        left = max(0, self._total - done)
        return Progress(
            trials=done,
            total=self._total,
            built=done - unbuilt,
            failures=dict(self._failures),
            incumbent_us=self.incumbent_us,
            elapsed_s=elapsed_s,
            trials_per_s=measured / elapsed_s if elapsed_s > 0 else 0.0,
            left_s=elapsed_s / measured * left if measured else None,
        )
