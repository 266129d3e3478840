"""The statistics of repeated times: medians, intervals, when to stop. Knows no clock and no GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from measure.measurement import Timing

#: How many samples a record keeps; the rest only shape the median.
SAMPLES_KEPT = 100


@lru_cache(maxsize=4096)
def interval_rank(count: int, confidence: float = 0.95) -> int:
    """Return r such that the r-th smallest and r-th largest of ``count`` samples hold the median.

    The coverage is 1 - 2 * P(Binomial(count, 1/2) < r), which needs no assumption on the
    distribution (David and Nagaraja, Order Statistics, section 7.1). Rank 1, the extremes, is the
    widest there is: below 6 samples even that covers less than 95 %.
    """
    tail, rank, total = 0.0, 0, 2.0**count
    while rank < count // 2:
        tail += math.comb(count, rank) / total
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    return max(rank, 1)


def median_interval(
    samples: Sequence[float], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the median of ``samples`` and the bounds of its interval. Raises on no samples."""
    ordered = sorted(samples)
    rank = interval_rank(len(ordered), confidence)
    return median(ordered), ordered[rank - 1], ordered[-rank]


def summarise(samples_us: Sequence[float]) -> Timing:
    """Return the median and its 95 % interval; of many samples, evenly spaced ones are kept."""
    middle, low, high = median_interval(samples_us)
    step = max(1, math.ceil(len(samples_us) / SAMPLES_KEPT))
    return Timing(middle, low, high, tuple(samples_us[::step]))


@dataclass(frozen=True, slots=True)
class Plan:
    """How often to repeat: until the interval is tight, within bounds.

    ``tight`` is the full width of the interval over the median. ``budget_us`` bounds the sum of
    the samples, ``least`` and ``most`` their number.
    """

    tight: float = 0.01
    budget_us: float = 10_000.0
    least: int = 7
    most: int = 200

    def more(self, samples_us: Sequence[float]) -> int:
        """Return how many further samples to take; 0 when done."""
        count = len(samples_us)
        if count < self.least:
            return self.least - count
        middle, low, high = median_interval(samples_us)
        if high - low <= self.tight * middle or count >= self.most:
            return 0
        affordable = int((self.budget_us - sum(samples_us)) / max(middle, 1e-3))
        return max(0, min(count, affordable, self.most - count))
