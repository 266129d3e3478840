"""What trees are fitted to, by name: labels, where they start, and how scores come of them.

Every objective sees a start on the scale of log efficiency, ``log(t_roof / t)``, and gives scores
on that scale where it can. Knows arrays alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.settings import RANKING, Objective

Column = NDArray[np.float64]

#: Grades of throughput that an objective of the top orders by.
GRADES = 15
#: The share of a workload's rows that counts as its best.
BEST = 0.1
#: The least throughput over the best, as a prediction: log of it bounds a score.
LEAST_THROUGHPUT = 0.01

_RANKED: dict[str, Any] = {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}
#: What xgboost is told of each, beside the size and the rate of trees.
PARAMETERS: dict[Objective, dict[str, Any]] = {
    "log_efficiency": {"objective": "reg:squarederror"},
    "throughput": {"objective": "reg:squarederror"},
    "pairwise": {"objective": "rank:pairwise", **_RANKED},
    "pairwise_unnormalized": {
        "objective": "rank:pairwise",
        "lambdarank_normalization": False,
        "lambdarank_score_normalization": False,
        **_RANKED,
    },
    "ndcg": {"objective": "rank:ndcg", "ndcg_exp_gain": False, **_RANKED},
    "best_tenth": {"objective": "binary:logistic", "base_score": 0.5},
}


@dataclass(frozen=True)
class Scale:
    """Where one workload's times lie: ``shift`` is the median of what they are beyond the start,
    ``best`` the largest, on the scale of log efficiency."""

    shift: float = 0.0
    best: float = 0.0


def scale_of(log_efficiency: Column, start: Column) -> Scale:
    """Return the scale of the rows of one workload; there is at least one."""
    return Scale(float(np.median(log_efficiency - start)), float(log_efficiency.max()))


def labels(objective: Objective, log_efficiency: Column) -> Column:
    """Return what trees learn of the rows of one workload [rows]; times are all there."""
    if objective == "log_efficiency":
        return log_efficiency
    throughput = np.exp(log_efficiency - log_efficiency.max())
    if objective == "ndcg":
        return np.asarray(np.floor(GRADES * throughput))
    if objective == "best_tenth":
        return (log_efficiency >= np.quantile(log_efficiency, 1 - BEST)).astype(np.float64)
    return np.asarray(throughput)


def margins(objective: Objective, start: Column, scale: Scale) -> Column:
    """Return where trees start from [rows], on their own scale."""
    if objective in RANKING or objective == "best_tenth":
        return start
    if objective == "throughput":
        return np.asarray(np.exp(np.minimum(start + scale.shift - scale.best, 0.0)))
    return np.asarray(start + scale.shift)


def scores(objective: Objective, raw: Column, scale: Scale) -> Column:
    """Return scores [rows] of what trees say, on the scale of log efficiency where it has one."""
    if objective == "throughput":
        return np.asarray(np.log(np.maximum(raw, LEAST_THROUGHPUT)) + scale.best)
    return raw
