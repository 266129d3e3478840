"""Medians, quartiles and bootstrap intervals over seeds. Knows arrays alone.

A seed that has nothing yet is infinite: it counts as worse than any other, and a quantile that
falls on it is infinite too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Resamples of seeds, and the share that an interval covers.
RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over seeds, and the bootstrap interval of the median."""

    median: float
    q1: float
    q3: float
    low: float
    high: float

    def to_data(self) -> dict[str, float]:
        """Return the five numbers by their names."""
        return {
            "median": self.median,
            "q1": self.q1,
            "q3": self.q3,
            "low": self.low,
            "high": self.high,
        }


def quantile(values: ArrayLike, share: float) -> NDArray[np.float64]:
    """Return a quantile over the first axis, between order statistics by linear interpolation
    (Hyndman and Fan's type 7); infinite where a neighbour that has weight is."""
    ordered = np.sort(np.asarray(values, float), axis=0)
    place = share * (len(ordered) - 1)
    below = int(place)
    above, weight = min(below + 1, len(ordered) - 1), place - below
    if weight == 0:
        return np.asarray(ordered[below])
    with np.errstate(invalid="ignore"):
        mixed = (1 - weight) * ordered[below] + weight * ordered[above]
    return np.where(np.isnan(mixed), np.inf, mixed)


@lru_cache(maxsize=16)
def resamples(seeds: int) -> NDArray[np.int64]:
    """Return the seeds that each resample holds [RESAMPLES, seeds], the same for equal counts.

    All arms and checkpoints are resampled alike, so that what is paired stays paired.
    """
    return np.random.default_rng(seeds).integers(0, seeds, (RESAMPLES, seeds))


def spreads(values: ArrayLike) -> list[Spread]:
    """Return the spread over seeds of each column of ``values`` [seeds, columns].

    The interval is the percentile bootstrap's of the median (Efron and Tibshirani, An Introduction
    to the Bootstrap, chapter 13). Of a single seed all five numbers are equal.
    """
    held = np.asarray(values, float)
    middle, q1, q3 = (quantile(held, share) for share in (0.5, 0.25, 0.75))
    medians = quantile(np.swapaxes(held[resamples(len(held))], 0, 1), 0.5)
    tail = (1 - CONFIDENCE) / 2
    low, high = (quantile(medians, share) for share in (tail, 1 - tail))
    columns = zip(middle, q1, q3, low, high, strict=True)
    return [Spread(*map(float, column)) for column in columns]


def spread(values: ArrayLike) -> Spread:
    """Return the spread over seeds of ``values`` [seeds]; see ``spreads``."""
    (found,) = spreads(np.asarray(values, float)[:, None])
    return found


def geometric_mean(values: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """Return the geometric mean along an axis of positive numbers; infinite where one is."""
    return np.asarray(np.exp(np.log(np.asarray(values, float)).mean(axis=axis)))
