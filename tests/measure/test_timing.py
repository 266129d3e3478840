"""Medians, intervals that cover, and repeats that stop."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.comparison import judge, paired_ratio
from measure.measurement import Failed, Failure, Timing
from measure.timing import SAMPLES_KEPT, Plan, interval_rank, median_interval, summarise

TIMES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("count", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (50, 18), (100, 40)]
)
def test_ranks_are_those_of_the_tables(count: int, rank: int) -> None:
    assert interval_rank(count) == rank


@given(TIMES)
def test_the_interval_holds_the_median(samples: list[float]) -> None:
    middle, low, high = median_interval(samples)
    assert middle == median(samples)
    assert min(samples) <= low <= middle <= high <= max(samples)


def test_the_interval_covers_in_95_of_100() -> None:
    rng = random.Random(1)
    for count in (7, 20, 100):
        hits = 0
        for _ in range(2000):
            _, low, high = median_interval([rng.lognormvariate(0, 1) for _ in range(count)])
            hits += low <= 1.0 <= high
        assert hits >= 0.94 * 2000


def test_a_record_keeps_a_bounded_number_of_samples() -> None:
    timing = summarise([float(n) for n in range(1, 1001)])
    assert timing.latency_us == 500.5
    assert len(timing.samples_us) == SAMPLES_KEPT
    assert summarise([1.0, 2.0, 3.0]).samples_us == (1.0, 2.0, 3.0)


def take(plan: Plan, draw: object) -> list[float]:
    samples: list[float] = []
    while count := plan.more(samples):
        samples += [draw() for _ in range(count)]  # type: ignore[operator]
    return samples


def test_a_steady_time_takes_the_fewest_samples() -> None:
    assert len(take(Plan(), lambda: 100.0)) == Plan().least


def test_a_noisy_time_is_repeated_until_tight_or_the_budget_is_spent() -> None:
    rng = random.Random(0)
    noisy = take(Plan(), lambda: 20.0 * rng.lognormvariate(0, 0.02))
    assert Plan().least < len(noisy) <= Plan().most
    wild = take(Plan(), lambda: 500.0 * rng.lognormvariate(0, 0.5))
    assert sum(wild) <= Plan().budget_us + 500 * 20
    slow = take(Plan(), lambda: 50_000.0 * rng.lognormvariate(0, 0.5))
    assert len(slow) == Plan().least


@pytest.mark.parametrize("value", [0.0, 1e-9])
def test_a_time_of_nothing_ends(value: float) -> None:
    assert len(take(Plan(), lambda: value)) <= Plan().most


def test_pairs_cancel_what_drifts() -> None:
    drift = [1 + n / 10 for n in range(50)]
    ratio = paired_ratio([2 * d for d in drift], drift)
    assert (ratio.median, ratio.low, ratio.high) == (2, 2, 2)


def test_ties_are_named_and_what_is_slower_is_not_among_them() -> None:
    rng = random.Random(2)
    times = [[us * rng.lognormvariate(0, 0.01) for _ in range(50)] for us in (10.0, 10.0, 10.5)]
    result = judge(times, {}, [20.0] * 50, None, (1,))
    assert result.best in (0, 1)
    assert set(result.ties) == {0, 1}
    assert result.ties[0] == result.best
    assert all(r is not None and 1.8 < r.low <= r.median <= r.high < 2.1 for r in result.ratios)


def test_aliases_of_one_kernel_are_a_tie_in_95_of_100() -> None:
    rng = random.Random(3)
    apart = 0
    for _ in range(200):
        times = [[rng.lognormvariate(0, 0.01) for _ in range(50)] for _ in range(8)]
        apart += len(judge(times, {}, None, None, (1,)).ties) < 8
    assert apart <= 10


def drifting(rng: random.Random, rounds: int, entrants: int) -> list[list[float]]:
    """Times of aliases on a device that heats up, with outliers and a clock of 32 ns steps."""
    rows: list[list[float]] = [[] for _ in range(entrants)]
    for turn in range(rounds):
        heat = 1 + 0.2 * turn / rounds
        for row in rows:
            us = 20.0 * heat * rng.lognormvariate(0, 0.005)
            us *= rng.choice([1.0] * 19 + [3.0])
            row.append(round(us / 0.032) * 0.032)
    return rows


def test_200_aliases_on_a_device_that_drifts_yield_no_claim_in_95_of_100() -> None:
    rng = random.Random(7)
    claims = 0
    for _ in range(100):
        # As a search goes: single times pick the eight that look best, the finals judge them.
        looks = {name: median(rng.lognormvariate(0, 0.01) for _ in range(7)) for name in range(200)}
        finalists = sorted(looks, key=looks.__getitem__)[:8]
        times = drifting(rng, 50, len(finalists))
        claims += len(judge(times, {}, None, None, (1,)).ties) < len(finalists)
    assert claims <= 5


def test_a_true_gain_of_three_percent_is_told_from_drift() -> None:
    rng = random.Random(8)
    found = 0
    for _ in range(50):
        times = drifting(rng, 50, 2)
        times[1] = [us * 1.03 for us in times[1]]
        result = judge(times, {}, None, None, (1,))
        found += (result.best, result.ties) == (0, (0,))
    assert found >= 48


def test_failures_take_no_part() -> None:
    failed = Failed(Failure.RUNTIME, "gone")
    result = judge([(), (5.0,) * 9], {0: failed}, None, failed, (1,))
    assert result.entrants[0] == failed
    assert isinstance(result.entrants[1], Timing)
    assert (result.best, result.ties, result.library) == (1, (1,), failed)
    nobody = judge([()], {0: failed}, None, None, ())
    assert (nobody.best, nobody.ties) == (None, ())
