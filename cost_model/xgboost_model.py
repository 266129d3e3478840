"""Boosted trees that learn what the analytic model, or a prior, gets wrong. Only xgboost's user.

Trees start from a prediction in closed form: that of the analytic model and, if there is one, of
a prior, moved by the median of what the rows are beyond it. With no rows the model is what it
starts from, with few it stays near it where nothing was measured; and the analytic terms are
features too, so that trees can undo them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xgboost
from numpy.typing import NDArray

from cost_model.dataset import Dataset, analytic_column, joined
from cost_model.features import features, kept, schema_hash
from cost_model.gate import Predict, earns_its_place
from cost_model.objective import PARAMETERS, Scale, labels, margins, scale_of, scores
from cost_model.settings import RANKING, ModelSettings
from search_space.sketch import Sketch
from search_space.target import Target

#: What all trees have in common: bins, column share, leaves as small as they need.
TREES: dict[str, Any] = {
    "tree_method": "hist",
    "max_bin": 64,
    "colsample_bytree": 0.5,
    "min_child_weight": 0.0,
    "base_score": 0.0,
}
#: A forest grows all its trees at once, each on a part of rows and columns.
FOREST: dict[str, Any] = {"eta": 1.0, "subsample": 0.8, "colsample_bynode": 0.5}
#: The model of whether a candidate will fail is kept small: failures follow simple bounds.
CLASSIFICATION: dict[str, Any] = {
    **TREES,
    "objective": "binary:logistic",
    "max_depth": 3,
    "eta": 0.2,
    "base_score": 0.5,
}
VALIDITY_ROUNDS = 40
#: Share of the first rounds that an update appends.
APPENDED = 0.2
#: Rows with a time below which there is only the shift, and rows of either outcome below which
#: nothing is said about failures.
FEWEST_ROWS = 8
FEWEST_OUTCOMES = 2
#: Rows that a model which is fitted once waits for.
FROZEN_ROWS = 32
#: A candidate is never held to be less likely to work than this: log of it bounds the penalty.
LEAST_VALIDITY = 0.02
#: Told rows that halve what a prior counts for as a start (AutoTVM's rule), and the share below
#: which it counts for nothing.
HALVED_BY, LEAST_SHARE = 64, 0.05
#: Told rows from which on a prior must earn its place, and trees that judge it.
GATED_ROWS, GATE_ROUNDS = 32, 40


class Prior(Protocol):
    """What earlier measurements of other workloads tell."""

    @property
    def dataset(self) -> Dataset:
        """Their rows."""

    @property
    def digest(self) -> str:
        """What tells it from others."""

    def log_efficiency(self, table: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return predictions [rows] for a table of features."""


@dataclass(frozen=True)
class Prediction:
    """Predicted log efficiency [candidates]: mean and spread over the bags, and validity."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    validity: NDArray[np.float64]


@dataclass(frozen=True)
class _Rows:
    """Rows with a time, as trees take them; arrays [rows]."""

    table: NDArray[np.float32]
    labels: NDArray[np.float64]
    margins: NDArray[np.float64]
    weights: NDArray[np.float64]
    groups: NDArray[np.int64]


class XGBoostModel:
    """Bags of boosted trees; equal seeds and equal calls of ``fit``, equal bits.

    ``threads`` bounds how many bags are grown side by side, each on one thread: what they
    become does not depend on it.
    """

    name = "xgboost"

    def __init__(
        self,
        seed: int,
        settings: ModelSettings | None = None,
        prior: Prior | None = None,
        *,
        threads: int = 1,
    ) -> None:
        self._seed = seed
        self._held = settings or ModelSettings()
        self._prior = prior if self._held.transfer != "none" else None
        self._threads = threads
        self._columns = kept(self._held.dropped)
        self._fitted_rows = 0
        self._bags: list[Any] = []
        self._forget()

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that fitting depends on beside rows, as plain data; of a prior its digest."""
        prior = {"prior": self._prior.digest} if self._prior else {}
        return {**self._held.to_data(), **prior}

    @property
    def grown(self) -> list[bytes]:
        """The trees of each bag, as bytes."""
        return [bytes(bag.save_raw("ubj")) for bag in self._bags]

    def restore(self, dataset: Dataset, grown: Sequence[bytes]) -> None:
        """Become what fitting to ``dataset`` made before, of the trees that it had grown then.
        Of failures nothing is said."""
        self._forget()
        told = dataset.take(dataset.valid & np.isfinite(dataset.analytic))
        self._rows(told)
        self._bags += [_restored(trees) for trees in grown]

    @property
    def trees(self) -> int:
        """How many boosting rounds each bag holds."""
        return self._bags[0].num_boosted_rounds() if self._bags else 0

    @property
    def _is_prior_alone(self) -> bool:
        """Whether all that is learnt is where the prior's predictions lie."""
        started = self._prior is not None and self._held.transfer in ("margin", "gated")
        return started and self._held.update == "frozen"

    def _forget(self) -> None:
        self._scales: dict[str, Scale] = {}
        self._discount = 1.0 if self._held.transfer in ("margin", "gated") else 0.0
        self._bags = []
        self._validity: Any = None

    def fit(self, dataset: Dataset) -> None:
        """Learn from ``dataset``, all that was told so far; rows of another schema or too few
        teach nothing."""
        if dataset.schema != schema_hash() or not len(dataset):
            self._forget()
            return
        if not self._is_due(dataset):
            return
        before = self._bags
        self._forget()
        self._fitted_rows = len(dataset)
        valid = dataset.valid & np.isfinite(dataset.analytic)
        told = dataset.take(valid)
        self._discount = self._prior_share(told)
        self._fit_times(told, before)
        self._fit_validity(dataset)

    def predict(self, sketch: Sketch, matrix: NDArray[np.int64], target: Target) -> Prediction:
        """Return what is expected of each candidate; ``matrix`` is as in ``CostModel.score``."""
        table = features(sketch, matrix, target)
        return self.predict_table(table, sketch.workload.key)

    def predict_table(self, table: NDArray[np.float32], workload: str) -> Prediction:
        """Return what is expected of rows of features, all of the workload with that key."""
        objective, scale = self._held.objective, self._scale(workload)
        start = self._start(table, analytic_column(table), self._discount)
        start = margins(objective, start, scale)
        seen = _finite_or_missing(table[:, self._columns])
        raw = np.array([_margin(bag, seen, start) for bag in self._bags] or [start], np.float64)
        validity = np.ones(len(table))
        if self._validity is not None:
            validity = np.asarray(self._validity.inplace_predict(seen), np.float64)
        mean = scores(objective, raw.mean(axis=0), scale)
        above = scores(objective, raw.mean(axis=0) + raw.std(axis=0), scale)
        return Prediction(mean, above - mean, validity)

    def score(
        self, sketch: Sketch, matrix: NDArray[np.int64], target: Target
    ) -> NDArray[np.float64]:
        """Return ``mean + optimism * std + log(validity)`` [candidates]."""
        if not len(matrix):
            return np.zeros(0)
        return self.score_table(features(sketch, matrix, target), sketch.workload.key)

    def score_table(self, table: NDArray[np.float32], workload: str) -> NDArray[np.float64]:
        """Return the scores of rows of features, all of the workload with that key."""
        expected = self.predict_table(table, workload)
        penalty = np.log(np.maximum(expected.validity, LEAST_VALIDITY))
        return np.asarray(expected.mean + self._held.optimism * expected.std + penalty)

    def _is_due(self, dataset: Dataset) -> bool:
        """Whether the rows are worth training anew."""
        held, rows = self._held, len(dataset)
        if held.update == "frozen" and not self._is_prior_alone:
            return not self._bags and int(dataset.valid.sum()) >= FROZEN_ROWS
        grown = rows >= (1 + held.retrain_growth) * self._fitted_rows
        return rows < held.retrain_below or rows < self._fitted_rows or grown

    def _prior_share(self, told: Dataset) -> float:
        """Return what the prior counts for as a start: less with every told row, and nothing
        where, from ``GATED_ROWS`` on, trees that start without it order left-out rows better."""
        if self._prior is None or self._held.transfer == "pooled":
            return 0.0
        share = 1.0 if self._is_prior_alone else float(2.0 ** (-len(told) / HALVED_BY))
        if share < LEAST_SHARE:
            return 0.0
        if self._held.transfer != "gated" or len(told) < GATED_ROWS:
            return share
        with_it, without = (self._predictor(told, held) for held in (share, 0.0))
        earned = earns_its_place(told.features, told.log_efficiency, with_it, without)
        return share if earned else 0.0

    def _predictor(self, told: Dataset, share: float) -> Predict:
        """Return what predicts all of ``told`` by a few trees grown of some of its rows."""
        start = self._start(told.features, told.analytic, share)
        table = _finite_or_missing(told.features[:, self._columns])

        def predict(rows: NDArray[np.bool_]) -> NDArray[np.float64]:
            begun = start + float(np.median((told.log_efficiency - start)[rows]))
            if rows.sum() < FEWEST_ROWS:
                return begun
            data = _matrix(table[rows], told.log_efficiency[rows], begun[rows])
            params = {**TREES, **PARAMETERS["log_efficiency"], "seed": self._seed}
            size = {"max_depth": self._held.depth, "eta": self._held.eta}
            bag = _train(data, {**params, **size}, GATE_ROUNDS, None)
            return np.asarray(_margin(bag, table, begun), np.float64)

        return predict

    def _start(
        self, table: NDArray[np.float32], analytic: NDArray[np.float64], share: float
    ) -> NDArray[np.float64]:
        """Return what is known before any row [rows], on the scale of log efficiency: ``share``
        of it is the prior's."""
        own = analytic if self._held.residual else np.zeros(len(table))
        if self._prior is None or not share:
            return own
        return own + share * (self._prior.log_efficiency(table) - own)

    def _scale(self, workload: str) -> Scale:
        """Return the scale of a workload; for one that was not told, that between all others."""
        if workload in self._scales or not self._scales:
            return self._scales.get(workload, Scale())
        told = list(self._scales.values())
        return Scale(
            float(np.median([s.shift for s in told])), float(np.median([s.best for s in told]))
        )

    def _fit_times(self, told: Dataset, before: list[Any]) -> None:
        if self._prior is not None and self._held.transfer == "pooled":
            earlier = self._prior.dataset
            told = joined(earlier.take(earlier.valid & np.isfinite(earlier.analytic)), told)
        if not len(told):
            return
        rows = self._rows(told)
        if len(told) < FEWEST_ROWS or self._is_prior_alone:
            return
        grown = before if self._held.update == "appended" else []
        bags = range(self._held.bags)
        with ThreadPoolExecutor(max(1, self._threads)) as pool:
            found = pool.map(lambda n: self._bag(rows, n, grown[n] if grown else None), bags)
            self._bags = list(found)

    def _rows(self, told: Dataset) -> _Rows:
        """Return rows for trees, and remember the scale of every workload."""
        held, groups = self._held, told.groups
        start = self._start(told.features, told.analytic, self._discount)
        wanted, begun = np.zeros(len(told)), np.zeros(len(told))
        throughput = np.ones(len(told))
        for number, key in enumerate(dict.fromkeys(told.workloads)):
            of = groups == number
            scale = self._scales[key] = scale_of(told.log_efficiency[of], start[of])
            wanted[of] = labels(held.objective, told.log_efficiency[of])
            begun[of] = margins(held.objective, start[of], scale)
            throughput[of] = np.exp(told.log_efficiency[of] - scale.best)
        weights = {"none": np.ones(len(told)), "workload": told.weights, "throughput": throughput}
        table = _finite_or_missing(told.features[:, self._columns])
        return _Rows(table, wanted, begun, weights[held.weights], groups)

    def _bag(self, rows: _Rows, number: int, before: Any) -> Any:
        """Grow one bag on its own draw of the rows, behind the trees of ``before`` if there are
        any."""
        held, rng = self._held, np.random.default_rng([self._seed, number])
        size = {"max_depth": held.depth, "eta": held.eta, "seed": self._seed + number}
        params = {**TREES, **PARAMETERS[held.objective], **size}
        if held.objective in RANKING:
            return _ranked(rows, rng, params, self._rounds(before), before)
        drawn = rows.weights * rng.exponential(1.0, len(rows.table))  # a Bayesian bootstrap
        data = _matrix(rows.table, rows.labels, rows.margins, weight=drawn / drawn.mean())
        if held.objective == "best_tenth":
            forest = {**params, **FOREST, "num_parallel_tree": held.rounds}
            return _train(data, forest, 1, None)
        return _train(data, params, self._rounds(before), before)

    def _rounds(self, before: Any) -> int:
        return self._held.rounds if before is None else max(1, int(APPENDED * self._held.rounds))

    def _fit_validity(self, dataset: Dataset) -> None:
        valid = dataset.valid
        if min(valid.sum(), (~valid).sum()) < FEWEST_OUTCOMES:
            return
        table = _finite_or_missing(dataset.features[:, self._columns])
        data = _matrix(table, valid.astype(np.float64), np.zeros(len(table)))
        params = {**CLASSIFICATION, "seed": self._seed}
        self._validity = _train(data, params, VALIDITY_ROUNDS, None)


def _ranked(rows: _Rows, rng: np.random.Generator, params: Any, rounds: int, before: Any) -> Any:
    """Train on pairs within workloads: rows drawn with replacement, sorted by workload."""
    drawn = np.sort(rng.integers(0, len(rows.table), len(rows.table)))
    drawn = drawn[np.argsort(rows.groups[drawn], kind="stable")]
    groups, first = np.unique(rows.groups[drawn], return_index=True)
    weights = np.array([rows.weights[drawn[n]] for n in first])
    data = _matrix(
        rows.table[drawn],
        rows.labels[drawn],
        rows.margins[drawn],
        weight=weights / weights.mean(),
        qid=np.searchsorted(groups, rows.groups[drawn]),
    )
    return _train(data, params, rounds, before)


def _matrix(
    table: NDArray[np.float32],
    wanted: NDArray[np.float64],
    begun: NDArray[np.float64],
    **held: NDArray[Any],
) -> Any:
    return xgboost.QuantileDMatrix(
        table, wanted, base_margin=begun, max_bin=TREES["max_bin"], nthread=1, **held
    )


def _train(data: Any, params: Mapping[str, Any], rounds: int, before: Any) -> Any:
    held = {**params, "nthread": 1, "verbosity": 0}
    return xgboost.train(held, data, num_boost_round=rounds, xgb_model=before)


def _margin(bag: Any, table: NDArray[np.float32], begun: NDArray[np.float64]) -> Any:
    # Added here, as the trees begin at 0: xgboost takes a margin over with threads that wait for
    # busy cores, which took ten times as long as the trees themselves.
    return begun + bag.inplace_predict(table, predict_type="margin")


def _finite_or_missing(table: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isfinite(table), table, np.float32(np.nan))


def _restored(trees: bytes) -> Any:
    return xgboost.Booster(params={"nthread": 1}, model_file=bytearray(trees))


def learner_version() -> str:
    """Return the version of xgboost."""
    return str(xgboost.__version__)
