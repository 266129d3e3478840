"""One evaluation of a cost model without a search: what it learns of some rows, judged by others.

Rows are recorded schedules. What is judged was never learnt: other schedules of the workload, or
a workload of which nothing was learnt at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from autosched.experiment.components import model_of
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import Arm, Experiment
from autosched.experiment.search import Line, Run
from autosched.spec import SpecError
from cost_model.dataset import Dataset, analytic_column, joined
from cost_model.evaluation import FEWEST, Ranking, Score, importance, quality
from cost_model.model import CostModel
from cost_model.prior import Prior


@dataclass(frozen=True)
class Split:
    """What is learnt, and what is judged: all with a time, of one workload. ``rows`` is the wish
    that made it."""

    rows: int | str
    learnt: Dataset
    judged: Dataset


def rank(
    experiment: Experiment,
    outcomes: Outcomes,
    others: Sequence[Outcomes],
    arm: Arm,
    seed: int,
    prior: Prior | None,
    timer: Callable[[], float] = time.process_time,
) -> Run:
    """Evaluate the arm's model on ``outcomes`` at each number of rows that the experiment names.

    ``others`` are learnt from where the workload is held out. The seed draws the rows and is the
    model's. Predictions and the importance of features are of the first seed and the most rows.

    Raises SpecError where too few rows are left to judge.
    """
    key, spent = outcomes.workload.key, []
    lines: list[Line] = [_head(outcomes, arm, seed)]
    for split in splits(experiment, outcomes, others, seed):
        if len(split.judged) < FEWEST:
            fact = (
                f"{split.rows} rows learnt leave {len(split.judged)} to judge, {FEWEST} are wanted"
            )
            raise SpecError(f"ranking.rows: {outcomes.name}: {fact}")
        begun = timer()
        model = model_of(arm, seed, prior)
        model.fit(split.learnt)
        score = _scorer(model, seed)
        scores = score(split.judged.features, key)
        spent.append(timer() - begun)
        lines += _lines(experiment, outcomes, split, scores, seed)
    if "importance" in experiment.metrics and seed == experiment.seeds[0]:
        lines += _importance(split.judged, score, seed)
    lines.append({"kind": "stop", "reason": "done", "trials": len(split.judged), "at_s": 0.0})
    return Run(tuple(lines), tuple(spent))


def splits(
    experiment: Experiment, outcomes: Outcomes, others: Sequence[Outcomes], seed: int
) -> Iterator[Split]:
    """Yield what is learnt and judged for each number of rows, the last of them the most.

    With the workload held out so many rows of each other workload are learnt, and all with a time
    judged; otherwise so many of its own are, and the rest judged.
    """
    own = outcomes.dataset
    whole = own.take(own.valid)
    apart = [other.dataset for other in others]
    for rows in experiment.ranking.rows:
        rng = np.random.default_rng([seed, 0 if rows == "all" else int(rows)])
        if experiment.ranking.held_out == "workload":
            parts = [held.take(_drawn(held, rows, rng)) for held in apart]
            yield Split(rows, reduce(joined, parts), whole)
        else:
            order = rng.permutation(len(own))
            rest = own.take(order[int(rows) :])
            yield Split(rows, own.take(order[: int(rows)]), rest.take(rest.valid))


def _drawn(held: Dataset, rows: int | str, rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(held))
    return order if rows == "all" else order[: int(rows)]


def _head(outcomes: Outcomes, arm: Arm, seed: int) -> Line:
    return {
        "kind": "run",
        "landscape": outcomes.name,
        "workload": outcomes.workload.key,
        "arm": arm.name,
        "seed": seed,
        "predicted": outcomes.predicted,
        "roof_us": outcomes.roof_us,
        "optimum_us": outcomes.optimum_us,
    }


def _lines(
    experiment: Experiment,
    outcomes: Outcomes,
    split: Split,
    scores: NDArray[np.float64],
    seed: int,
) -> Iterator[Line]:
    ranking = Ranking(outcomes.workload.key, scores, split.judged.log_efficiency)
    held = quality([ranking]).to_data()
    values = {name: float(value) for name, value in held.items() if name != "workloads"}
    values |= {f"top_{k}": ranking.best_of(k) for k in experiment.ranking.top}
    known = {name: None if np.isnan(value) else value for name, value in values.items()}
    yield {
        "kind": "ranking",
        "rows": split.rows,
        "learnt": len(split.learnt),
        "judged": len(split.judged),
        **known,
    }
    if seed == experiment.seeds[0] and split.rows == experiment.ranking.rows[-1]:
        yield {
            "kind": "predictions",
            "rows": split.rows,
            "expected_us": (outcomes.roof_us * np.exp(-scores)).tolist(),
            "us": (outcomes.roof_us * np.exp(-split.judged.log_efficiency)).tolist(),
        }


def _importance(judged: Dataset, score: Score, seed: int) -> Iterator[Line]:
    for feature, lost in importance(judged, score, seed).items():
        yield {"kind": "importance", "feature": feature, "lost": lost}


def _scorer(model: CostModel, seed: int) -> Score:
    """Return what scores rows of features; those that do not learn are told by their names."""
    by_table: Score | None = getattr(model, "score_table", None)
    if by_table is not None:
        return by_table
    if model.name == "analytic":
        return lambda table, _: analytic_column(table)
    return lambda table, _: np.random.default_rng(seed).random(len(table))
