"""Quantiles with seeds that have nothing yet, and intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.experiment.statistics import geometric_mean, quantile, spread

INF = float("inf")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_of_finite_numbers_are_numpys(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(np.quantile(values, share), abs=1e-6)


def test_infinite_seeds_count_as_worse_than_any_other() -> None:
    assert quantile([INF, 1.0, 2.0], 0.5) == 2.0
    assert quantile([INF, INF, 2.0], 0.5) == INF
    assert quantile([1.0, INF], 0.5) == INF
    assert quantile([INF, INF], 0.5) == INF


def test_quantiles_go_over_the_first_axis() -> None:
    assert quantile([[1.0, 10.0], [3.0, INF], [2.0, 30.0]], 0.5).tolist() == [2.0, 30.0]


def test_the_spread_of_one_seed_is_that_seed() -> None:
    assert set(spread([1.25]).to_data().values()) == {1.25}


def test_the_interval_covers_the_median_of_what_was_drawn_from() -> None:
    rng = np.random.default_rng(5)
    intervals = [spread(rng.lognormal(0.0, 0.3, 25)) for _ in range(100)]
    covered = sum(held.low <= 1.0 <= held.high for held in intervals)
    assert 87 <= covered <= 100
    assert all(h.low <= h.median <= h.high and h.q1 <= h.median <= h.q3 for h in intervals)


def test_more_seeds_make_it_narrower() -> None:
    values = np.random.default_rng(6).lognormal(0.0, 0.3, 400)
    few, many = spread(values[:20]), spread(values)
    assert many.high - many.low < few.high - few.low


def test_the_geometric_mean_is_that_of_columns() -> None:
    assert geometric_mean([[1.0, 2.0], [4.0, 8.0]]).tolist() == pytest.approx([2.0, 4.0])
    assert geometric_mean([[1.0], [INF]]).tolist() == [INF]
