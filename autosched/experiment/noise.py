"""How far apart two timings of one schedule are: the floor below which no difference counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from autosched.landscape import Point
from measure.measurement import Timed

#: Repeats that a half needs to have a median worth the name.
LEAST = 3


def floor(points: Sequence[Point]) -> Mapping[str, Any]:
    """Return the noise of a landscape, as shares of a time.

    ``halves``: a time's repeats, the first half against the second, each by its median, scaled
    down by sqrt(2) to what the whole has (medians of n repeats vary with 1/sqrt(n)). ``finals``:
    the time of the search against that in the closing comparison, minutes later, less the ``shift``
    that all have in common (the median logarithm of final over search). Both are the absolute
    logarithm of the ratio, median and 90th percentile over schedules.
    """
    timed = [p for p in points if isinstance(p.outcome, Timed) and not p.outcome.quarantined]
    halves = [_halves(point) for point in timed]
    later = [_logarithm(median(p.finals_us), p.latency_us) for p in timed if p.finals_us]
    shift = median(later) if later else None
    return {
        "schedules": len(timed),
        **_summary("halves", [h for h in halves if h is not None]),
        **_summary("finals", [abs(ratio - (shift or 0.0)) for ratio in later]),
        "finals_shift": shift,
    }


def _halves(point: Point) -> float | None:
    assert isinstance(point.outcome, Timed)  # noqa: S101 (only those with a time come here)
    repeats = point.outcome.timing.samples_us
    middle = len(repeats) // 2
    if middle < LEAST:
        return None
    return abs(_logarithm(median(repeats[:middle]), median(repeats[middle:]))) / 2**0.5


def _logarithm(first_us: float, second_us: float | None) -> float:
    return float(np.log(first_us / (second_us or np.nan)))


def _summary(name: str, values: Sequence[float]) -> Mapping[str, Any]:
    if not values:
        return {f"{name}_count": 0}
    middle, most = np.quantile(values, [0.5, 0.9])
    return {
        f"{name}_count": len(values),
        f"{name}_median": float(middle),
        f"{name}_p90": float(most),
    }
