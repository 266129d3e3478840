"""The attempts of a run and how far it has come. Knows no strategy and no device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from autosched.tune.events import Progress
from autosched.tune.result import Trial
from measure.measurement import Failed, Failure, Timed

#: A gain is above noise if it is more than this share of the incumbent's time, and more than
#: half of the interval of its own.
LEAST_GAIN = 0.003


class Ledger:
    """Outcomes in the order they come. ``clock`` gives seconds that never go back."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        self._started_s = clock()
        self._trials: list[Trial] = []
        self._failures: Counter[str] = Counter()
        self._incumbent: Trial | None = None
        #: Time that later ones are compared with, and the first attempt not yet behind it.
        self._mark_us = float("inf")
        self._marked = 0

    def enter(self, trial: Trial) -> bool:
        """Take in an outcome; say whether it is the new incumbent."""
        self._trials.append(trial)
        if isinstance(trial.measurement, Failed):
            self._failures[trial.measurement.kind.value] += 1
            return False
        if trial.measurement.latency_us < self._mark_us - self._noise_us(trial.measurement):
            self._mark_us = trial.measurement.latency_us
            self._marked = len(self._trials)
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
    def since_gain(self) -> int:
        """Attempts since the last gain above noise."""
        return len(self._trials) - self._marked

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._started_s

    def progress(self) -> Progress:
        """Return how far the run has come."""
        done, elapsed_s = len(self._trials), self.elapsed_s
        unbuilt = self._failures[Failure.COMPILE] + self._failures[Failure.CONSTRAINTS]
        return Progress(
            trials=done,
            total=self._total,
            built=done - unbuilt,
            failures=dict(self._failures),
            incumbent_us=self.incumbent_us,
            elapsed_s=elapsed_s,
            trials_per_s=done / elapsed_s if elapsed_s > 0 else 0.0,
            left_s=elapsed_s / done * max(0, self._total - done) if done else None,
        )

    def _noise_us(self, timed: Timed) -> float:
        if self._mark_us == float("inf"):
            return 0.0
        spread = (timed.timing.high_us - timed.timing.low_us) / 2
        return max(LEAST_GAIN * self._mark_us, spread)
