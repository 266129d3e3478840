"""What came of timing programs in turns: paired ratios, intervals and ties.

Knows nothing of devices: times in, verdict out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from measure.measurement import Failed, Timing
from measure.timing import median_interval, summarise


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of paired times: the median over rounds and its interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Entrants timed in turns on the same data, in the order they were given.

    ``ratios`` are library time over entrant time, pair by pair: above 1 the entrant is faster.
    They are None without a library, and for entrants that failed. ``ties`` are the entrants that
    cannot be told apart from ``best`` at 95 %, ``best`` first.
    """

    entrants: tuple[Timing | Failed, ...]
    library: Timing | Failed | None
    ratios: tuple[Ratio | None, ...]
    best: int | None
    ties: tuple[int, ...]
    rounds: int
    seeds: tuple[int, ...]
    #: What disturbed the device in rounds that could not be held again; "" if nothing did.
    trouble: str = ""


def paired_ratio(
    numerator_us: Sequence[float], denominator_us: Sequence[float], confidence: float = 0.95
) -> Ratio:
    """Return the median over rounds of numerator / denominator, with its interval."""
    ratios = [n / d for n, d in zip(numerator_us, denominator_us, strict=True)]
    return Ratio(*median_interval(ratios, confidence))


def judge(
    times_us: Sequence[Sequence[float]],
    failures: dict[int, Failed],
    library_us: Sequence[float] | None,
    library_failure: Failed | None,
    seeds: tuple[int, ...],
) -> Comparison:
    """Rank entrants by the median of their times; entrants in ``failures`` take no part.

    An entrant ties with the best unless its paired ratio to the best lies above 1 for certain.
    The certainty is shared out over all pairs of entrants (Bonferroni), as the best is picked by
    the very times that it is compared by.
    """
    healthy = [index for index in range(len(times_us)) if index not in failures]
    entrants = tuple(failures.get(index) or summarise(row) for index, row in enumerate(times_us))
    ranked = sorted(healthy, key=lambda index: (median_interval(times_us[index])[0], index))
    best = ranked[0] if ranked else None
    confidence = 1 - 0.05 / max(1, math.comb(len(healthy), 2))
    ties = tuple(
        index
        for index in ranked
        if index == best
        or (best is not None and paired_ratio(times_us[index], times_us[best], confidence).low <= 1)
    )
    ratios = tuple(
        paired_ratio(library_us, row) if library_us and index in healthy else None
        for index, row in enumerate(times_us)
    )
    library = library_failure or (summarise(library_us) if library_us else None)
    rounds = max((len(row) for row in times_us), default=0)
    return Comparison(entrants, library, ratios, best, ties, rounds, seeds)
