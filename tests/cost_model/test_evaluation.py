"""Evaluation against values worked out by hand, and what it says of models that know too much."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cost_model.dataset import Dataset
from cost_model.evaluation import (
    Ranking,
    ablation,
    held_out,
    importance,
    learning_curve,
    quality,
)
from cost_model.features import NAMES, schema_hash
from cost_model.settings import ModelSettings


def ranking(scores: list[float], times_us: list[float], key: str = "w") -> Ranking:
    return Ranking(key, np.array(scores, float), -np.log(times_us))


def test_the_best_of_the_predicted_top() -> None:
    one = ranking([3, 2, 1, 0], [8, 4, 16, 2])
    assert one.best_of(1) == pytest.approx(2 / 8)
    assert one.best_of(2) == pytest.approx(2 / 4)
    assert one.best_of(4) == 1


def test_quality_of_two_workloads() -> None:
    good = ranking([4, 3, 2, 1], [1, 2, 3, 4], "good")
    bad = ranking([1, 2, 3, 4], [1, 2, 3, 4], "bad")
    both = quality([good, bad])
    assert both.workloads == 2
    assert both.top_1 == pytest.approx(2 / (1 + 4))
    assert both.top_5 == 1
    assert both.pairwise == pytest.approx(0.5)
    assert both.spearman == pytest.approx(0)
    # Sum of w * t_best over that of w * (best of the predicted top): 10 and 1 microseconds.
    weighted = quality([good, bad], {"good": 10.0, "bad": 1.0})
    assert weighted.top_1 == pytest.approx(11 / (10 + 4))


def test_ranks_within_the_best_tenth() -> None:
    times = np.arange(1, 41, dtype=float)
    scores = -times
    scores[:4] = [1, 2, 3, 4]  # The best four, in the wrong order, above all others.
    one = ranking(scores.tolist(), times.tolist())
    assert len(one.best.scores) == 4
    assert quality([one]).spearman_best == pytest.approx(-1)
    assert quality([one]).spearman > 0.98
    constant = ranking([1.0] * 40, times.tolist())
    assert math.isnan(quality([constant]).spearman_best)


def rows(workloads: int = 3, count: int = 40) -> Dataset:
    """Efficiency is column 0, and 1 for good measure; every tenth row failed."""
    rng = np.random.default_rng(0)
    table = rng.random((workloads * count, len(NAMES))).astype(np.float32)
    value = table[:, 0].astype(float) + 0.1 * table[:, 1]
    value[::10] = np.nan
    keys = tuple(f"w{n // count}" for n in range(workloads * count))
    return Dataset(table, value, np.zeros(len(table)), keys, schema_hash())


def oracle(table: np.ndarray, key: str) -> np.ndarray:
    return table[:, 0].astype(float) + 0.1 * table[:, 1]


def test_a_workload_is_held_out_of_what_ranks_it() -> None:
    seen: list[set[str]] = []

    def fit(others: Dataset):
        seen.append(set(others.workloads))
        assert not others.valid.all()  # Failures are there to be learnt from.
        return oracle

    found = held_out(rows(), fit)
    assert [r.workload for r in found] == ["w0", "w1", "w2"]
    assert seen == [{"w1", "w2"}, {"w0", "w2"}, {"w0", "w1"}]
    assert [len(r.scores) for r in found] == [36, 36, 36]
    assert quality(found).pairwise == quality(found).top_1 == 1


def test_a_learning_curve_scores_what_was_not_learnt() -> None:
    sizes: list[int] = []

    def fit(own: Dataset):
        assert len(set(own.workloads)) == 1
        sizes.append(len(own))
        return oracle

    found = learning_curve(rows(), fit, sizes=[10, 30], seeds=[0, 1])
    assert sorted(set(sizes)) == [10]  # Of 40 rows, 30 leave too few to judge by.
    assert list(found) == [10]
    assert found[10].workloads == 6
    assert found[10].spearman == pytest.approx(1)


def test_a_column_matters_by_what_shuffling_it_costs() -> None:
    found = importance(rows(), oracle)
    assert list(found)[:2] == list(NAMES[:2])
    assert found[NAMES[0]] > 0.3
    assert all(found[name] == 0 for name in NAMES[2:])
    assert importance(rows(), oracle) == found


def test_groups_are_left_out_one_at_a_time() -> None:
    asked: list[tuple[str, ...]] = []

    def fit(settings: ModelSettings):
        asked.append(settings.dropped)
        return lambda others: oracle

    found = ablation(rows(), fit, ModelSettings(dropped=("compiled", "bytes")))
    assert list(found)[:3] == ["all", "minus choices", "minus shape"]
    assert asked[:2] == [("compiled", "bytes"), ("compiled", "bytes", "choices")]
    assert len(found) == 8


def test_nothing_timed_is_nothing_ranked() -> None:
    failed = replace(rows(), log_efficiency=np.full(120, np.nan))
    assert held_out(failed, lambda others: oracle) == []
    assert importance(failed, oracle) == dict.fromkeys(sorted(NAMES), 0.0)
