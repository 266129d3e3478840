"""Metrics against values worked out by hand and by simulation."""

import math

import numpy as np
import pytest

from cost_model import metrics


def test_spearman() -> None:
    assert metrics.spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert metrics.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert metrics.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(22.5))
    assert math.isnan(metrics.spearman([1, 1, 1], [1, 2, 3]))
    assert math.isnan(metrics.spearman([], []))


def test_pairwise_accuracy() -> None:
    assert metrics.pairwise_accuracy([1, 2, 3], [1, 2, 3]) == 1
    assert metrics.pairwise_accuracy([3, 2, 1], [1, 2, 3]) == 0
    assert metrics.pairwise_accuracy([1, 1], [1, 2]) == 0.5
    assert metrics.pairwise_accuracy([1, 3, 2], [5, 6, 6]) == 1  # the tied pair does not count
    assert math.isnan(metrics.pairwise_accuracy([1, 2], [5, 5]))


def test_top_k_regret() -> None:
    times_us = [10.0, 8.0, 20.0]
    assert metrics.top_k_regret([3, 2, 1], times_us, 1) == pytest.approx(0.25)
    assert metrics.top_k_regret([3, 2, 1], times_us, 2) == 0


def test_expected_random_best_is_what_simulation_gives() -> None:
    rng = np.random.default_rng(0)
    times_us = rng.uniform(1, 2, 40)
    runs = np.array([np.minimum.accumulate(rng.permutation(times_us)) for _ in range(4000)])
    expected = metrics.expected_random_best(times_us, 40)
    np.testing.assert_allclose(expected, runs.mean(axis=0), atol=0.01)
    assert expected[0] == pytest.approx(times_us.mean())
    assert expected[-1] == times_us.min()


def test_performance_is_one_at_the_optimum_and_zero_at_random() -> None:
    found = metrics.performance([10.0, 6.0, 5.0], [10.0, 8.0, 5.0], 5.0)
    np.testing.assert_allclose(found, [0.0, 2 / 3, 1.0])


def test_incumbents() -> None:
    assert metrics.incumbents([None, 5.0, 7.0, 3.0]).tolist() == [math.inf, 5.0, 5.0, 3.0]
    assert metrics.incumbents([]).tolist() == []
