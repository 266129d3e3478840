"""How long ago a run last got better, by more than noise. Knows only outcomes, in one order."""

from __future__ import annotations

import math

from measure.measurement import Failed, Measurement, Timed

#: A gain is above noise if it is more than this share of the time to beat, and more than half the
#: intervals of both allow for. Timed again in the final, the best few of 24 runs on an H200 were
#: off by 0.9 % (the median over runs of a standard deviation).
LEAST_GAIN = 0.008


class Gain:
    """Follows outcomes in the order they are entered."""

    def __init__(self) -> None:
        self._entered = 0
        #: The time that later ones are compared with, and how many had been entered at the last
        #: gain.
        self._mark_us: float | None = None
        self._mark_half_us = 0.0
        self._marked = 0
        #: The least time so far, in microseconds.
        self.best_us: float | None = None

    def enter(self, outcome: Measurement) -> None:
        """Take in the next outcome."""
        self._entered += 1
        if isinstance(outcome, Failed):
            return
        latency_us = outcome.latency_us
        self.best_us = latency_us if self.best_us is None else min(self.best_us, latency_us)
        if self._mark_us is None or latency_us < self._mark_us - self._noise_us(outcome):
            self._mark_us = latency_us
            self._mark_half_us = _half_us(outcome)
            self._marked = self._entered

    @property
    def since(self) -> int:
        """How many outcomes came after the last gain above noise."""
        return self._entered - self._marked

    def _noise_us(self, timed: Timed) -> float:
        """Return what two times of equally fast schedules may differ by."""
        spread = math.hypot(_half_us(timed), self._mark_half_us)
        return max(LEAST_GAIN * (self._mark_us or 0.0), spread)


def _half_us(timed: Timed) -> float:
    return (timed.timing.high_us - timed.timing.low_us) / 2
