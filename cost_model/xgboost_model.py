"""Boosted trees that learn what the analytic model gets wrong. The only user of xgboost.

The trees are fitted to the residual ``log(t_roof / t) - analytic``, whose median is a shift of
its own: with no rows the model is the analytic one, with few it stays near it where nothing was
measured, and the analytic terms are features too, so that trees can undo them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from cost_model.dataset import Dataset, analytic_column
from cost_model.features import features, schema_hash
from search_space.sketch import Sketch
from search_space.target import Target

#: Depth, rate, bins and column share of the trees: squared error on log efficiency.
REGRESSION: dict[str, Any] = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "max_bin": 64,
    "colsample_bytree": 0.5,
    "min_child_weight": 0.0,
    "base_score": 0.0,
}
#: The model of whether a candidate will fail is kept small: failures follow simple bounds.
CLASSIFICATION: dict[str, Any] = {
    **REGRESSION,
    "objective": "binary:logistic",
    "max_depth": 3,
    "eta": 0.2,
    "base_score": 0.5,
}
VALIDITY_ROUNDS = 40
#: Rows with a time below which there is only the shift, and rows of either outcome below which
#: nothing is said about failures.
FEWEST_ROWS = 8
FEWEST_OUTCOMES = 2
#: Rows that are worth another thread: with fewer, threads wait for one another, and on cores that
#: compilers share they wait for long.
ROWS_PER_THREAD = 2000
#: A candidate is never held to be less likely to work than this: log of it bounds the penalty.
LEAST_VALIDITY = 0.02


@dataclass(frozen=True)
class Prediction:
    """Predicted log efficiency [candidates]: mean and spread over the bags, and validity."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    validity: NDArray[np.float64]


class XGBoostModel:
    """Bags of boosted trees on the residual of the analytic model; equal seeds, equal bits.

    ``threads`` bounds what fitting and scoring use, so that compilers keep their cores; small
    data take one.
    ``optimism`` is how many standard deviations over the bags a score adds to the mean.
    """

    name = "xgboost"

    def __init__(
        self,
        seed: int,
        threads: int = 1,
        *,
        bags: int = 3,
        rounds: int = 150,
        optimism: float = 1.0,
    ) -> None:
        self._seed = seed
        self._threads = threads
        self._bag_count = bags
        self._rounds = rounds
        self._optimism = optimism
        self._forget()

    def _forget(self) -> None:
        self._shift = 0.0
        self._bags: list[Any] = []
        self._validity: Any = None

    def fit(self, dataset: Dataset) -> None:
        """Learn from ``dataset``; rows of another schema or too few teach nothing."""
        self._forget()
        if dataset.schema != schema_hash() or not len(dataset):
            return
        table = _finite_or_missing(dataset.features)
        valid = dataset.valid & np.isfinite(dataset.analytic)
        self._fit_efficiency(table[valid], dataset, valid)
        self._fit_validity(table, dataset.valid)

    def predict(self, sketch: Sketch, matrix: NDArray[np.int64], target: Target) -> Prediction:
        """Return what is expected of each candidate; ``matrix`` is as in ``CostModel.score``."""
        table = _finite_or_missing(features(sketch, matrix, target))
        start = analytic_column(table) + self._shift
        if self._bags:
            residuals = np.array([bag.inplace_predict(table) for bag in self._bags], np.float64)
        else:
            residuals = np.zeros((1, len(matrix)))
        validity = np.ones(len(matrix))
        if self._validity is not None:
            validity = np.asarray(self._validity.inplace_predict(table), np.float64)
        return Prediction(start + residuals.mean(axis=0), residuals.std(axis=0), validity)

    def score(
        self, sketch: Sketch, matrix: NDArray[np.int64], target: Target
    ) -> NDArray[np.float64]:
        """Return ``mean + optimism * std + log(validity)`` [candidates]."""
        if not len(matrix):
            return np.zeros(0)
        expected = self.predict(sketch, matrix, target)
        penalty = np.log(np.maximum(expected.validity, LEAST_VALIDITY))
        return np.asarray(expected.mean + self._optimism * expected.std + penalty)

    def _fit_efficiency(
        self, table: NDArray[np.float32], dataset: Dataset, valid: NDArray[np.bool_]
    ) -> None:
        if not len(table):
            return
        residuals = dataset.log_efficiency[valid] - dataset.analytic[valid]
        self._shift = float(np.median(residuals))
        if len(table) < FEWEST_ROWS:
            return
        weights = dataset.weights[valid]
        rng = np.random.default_rng(self._seed)
        for bag in range(self._bag_count):
            drawn = weights * rng.exponential(1.0, len(table))  # a Bayesian bootstrap
            params = {**REGRESSION, "seed": self._seed + bag}
            self._bags.append(
                self._train(table, residuals - self._shift, drawn, params, self._rounds)
            )

    def _fit_validity(self, table: NDArray[np.float32], valid: NDArray[np.bool_]) -> None:
        if min(valid.sum(), (~valid).sum()) < FEWEST_OUTCOMES:
            return
        params = {**CLASSIFICATION, "seed": self._seed}
        ones = np.ones(len(table))
        self._validity = self._train(table, valid.astype(np.float64), ones, params, VALIDITY_ROUNDS)

    def _train(
        self,
        table: NDArray[np.float32],
        labels: NDArray[np.float64],
        weights: NDArray[np.float64],
        params: dict[str, Any],
        rounds: int,
    ) -> Any:
        threads = max(1, min(self._threads, len(table) // ROWS_PER_THREAD))
        rows = xgboost.QuantileDMatrix(
            table, labels, weight=weights / weights.mean(), max_bin=64, nthread=threads
        )
        held = {**params, "nthread": threads, "verbosity": 0}
        return xgboost.train(held, rows, num_boost_round=rounds)


def _finite_or_missing(table: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isfinite(table), table, np.float32(np.nan))
