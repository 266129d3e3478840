"""How well scores rank measured candidates: on workloads held out, and within one workload.

Works on arrays alone (``Dataset``), by a function that fits and one that scores, so that it judges
any model. Values are log efficiencies, ``log(t_roof / t)``: within a workload they order as times
do, and their differences are logarithms of ratios of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cost_model.dataset import Dataset
from cost_model.feature_list import FEATURES, GROUPS
from cost_model.metrics import pairwise_accuracy, spearman
from cost_model.settings import ModelSettings

Column = NDArray[np.float64]
#: Scores the rows of a table of features [rows, columns], all of the workload with that key.
Score = Callable[[NDArray[np.float32], str], Column]
#: Learns from rows and returns what scores others.
Fit = Callable[[Dataset], Score]

#: The share of a workload's rows that counts as its best.
BEST = 0.1
#: Rows with fewer times than this say nothing about ranks.
FEWEST = 20


@dataclass(frozen=True)
class Ranking:
    """Scores of one workload's rows, and what was measured of them; arrays [rows], all timed."""

    workload: str
    scores: Column
    log_efficiency: Column

    def best_of(self, k: int) -> float:
        """Return the best time of all over the best of the ``k`` highest scores, at most 1."""
        picked = np.argsort(-self.scores, kind="stable")[:k]
        return float(np.exp(self.log_efficiency[picked].max() - self.log_efficiency.max()))

    @property
    def best(self) -> Ranking:
        """The rows of the best tenth, by what was measured."""
        count = max(2, round(BEST * len(self.scores)))
        rows = np.argsort(-self.log_efficiency, kind="stable")[:count]
        return Ranking(self.workload, self.scores[rows], self.log_efficiency[rows])


@dataclass(frozen=True)
class Quality:
    """How well one or several workloads were ranked.

    ``top_k`` is the sum of ``w * t_best`` over the sum of ``w * (best time of the k predicted
    best)``. The others are means over workloads.
    """

    workloads: int
    top_1: float
    top_5: float
    top_8: float
    pairwise: float
    spearman: float
    spearman_best: float

    def to_data(self) -> dict[str, float]:
        """Return plain data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def quality(rankings: Sequence[Ranking], weights: Mapping[str, float] | None = None) -> Quality:
    """Return how well ``rankings`` rank.

    ``weights`` are times that a workload counts for, ``w * t_best`` by its key; without, every
    workload counts alike.
    """
    held = np.array([(weights or {}).get(r.workload, 1.0) for r in rankings])

    def top(k: int) -> float:
        return float(held.sum() / (held / [r.best_of(k) for r in rankings]).sum())

    return Quality(
        workloads=len(rankings),
        top_1=top(1),
        top_5=top(5),
        top_8=top(8),
        pairwise=_mean([pairwise_accuracy(r.scores, r.log_efficiency) for r in rankings]),
        spearman=_mean([spearman(r.scores, r.log_efficiency) for r in rankings]),
        spearman_best=_mean([spearman(r.best.scores, r.best.log_efficiency) for r in rankings]),
    )


def held_out(rows: Dataset, fit: Fit) -> list[Ranking]:
    """Rank every workload by what ``fit`` learns of all the others."""
    timed = rows.take(rows.valid)
    groups = timed.groups
    found = []
    for number, key in enumerate(dict.fromkeys(timed.workloads)):
        own = groups == number
        if own.sum() >= FEWEST:
            score = fit(rows.take(np.array([w != key for w in rows.workloads])))
            found.append(_ranking(score, timed.take(own), key))
    return found


def learning_curve(
    rows: Dataset, fit: Fit, sizes: Sequence[int], seeds: Sequence[int]
) -> dict[int, Quality]:
    """Rank within workloads: fit on so many random rows of one, score its others.

    Means over workloads and seeds, by size; a workload with too few rows for a size is left out,
    and a size for which no workload has enough.
    """
    found = {size: list(_within(rows, fit, size, seeds)) for size in sizes}
    return {size: quality(rankings) for size, rankings in found.items() if rankings}


def _within(rows: Dataset, fit: Fit, size: int, seeds: Sequence[int]) -> Iterator[Ranking]:
    for key in dict.fromkeys(rows.workloads):
        own = rows.take(np.array([w == key for w in rows.workloads]))
        for seed in seeds:
            order = np.random.default_rng([seed, size]).permutation(len(own))
            rest = own.take(order[size:])
            rest = rest.take(rest.valid)
            if len(rest) >= FEWEST:
                yield _ranking(fit(own.take(order[:size])), rest, key)


def importance(rows: Dataset, score: Score, seed: int = 0) -> dict[str, float]:
    """Return by how much pairwise accuracy falls where one column is shuffled within workloads.

    Sorted, the most important first; a column that says nothing comes to 0.
    """
    timed = rows.take(rows.valid)
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(timed.groups == n) for n in np.unique(timed.groups)]
    groups = [own for own in groups if len(own) >= FEWEST]
    names = [feature.name for feature in FEATURES]
    lost = dict.fromkeys(names, 0.0)
    for own in groups:
        key, table = timed.workloads[own[0]], timed.features[own]
        wanted = timed.log_efficiency[own]
        whole = pairwise_accuracy(score(table, key), wanted)
        for column, name in enumerate(names):
            if np.unique(table[:, column], equal_nan=True).size == 1:
                continue
            shuffled = table.copy()
            shuffled[:, column] = table[rng.permutation(len(own)), column]
            lost[name] += (whole - pairwise_accuracy(score(shuffled, key), wanted)) / len(groups)
    return dict(sorted(lost.items(), key=lambda item: (-item[1], item[0])))


def ablation(
    rows: Dataset, fit: Callable[[ModelSettings], Fit], settings: ModelSettings
) -> dict[str, Quality]:
    """Return the quality on held-out workloads without each group of features, and with all."""
    found = {"all": quality(held_out(rows, fit(settings)))}
    for group in GROUPS:
        if group not in settings.dropped:
            without = {**settings.to_data(), "dropped": (*settings.dropped, group)}
            found[f"minus {group}"] = quality(held_out(rows, fit(ModelSettings(**without))))
    return found


def _ranking(score: Score, timed: Dataset, key: str) -> Ranking:
    return Ranking(key, np.asarray(score(timed.features, key)), timed.log_efficiency)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of those that are numbers; NaN if none is."""
    held = [value for value in values if not np.isnan(value)]
    return float(np.mean(held)) if held else float("nan")
