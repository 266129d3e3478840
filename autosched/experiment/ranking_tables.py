"""The tables of a ranking experiment, from its runs. Writes nothing.

The landscape ``all`` is the mean over landscapes of each seed's figures, of the shares of the top
the harmonic mean (sum of best times over sum of the times found, all workloads weighing the same).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.experiment.folder import RunName
from autosched.experiment.plan import Experiment
from autosched.experiment.statistics import spread
from autosched.experiment.tables import ALL, SPREAD, Row, Table

Lines = Sequence[Mapping[str, Any]]
#: Figures beside the shares of the top.
FIGURES = ("pairwise", "spearman", "spearman_best")


def ranking_tables(experiment: Experiment, runs: Mapping[RunName, Lines]) -> Iterator[Table]:
    """Yield the tables that the experiment's metrics ask for."""
    if "ranking" in experiment.metrics:
        yield _ranking(experiment, runs)
    if "importance" in experiment.metrics:
        yield _importance(experiment, runs)


def _ranking(experiment: Experiment, runs: Mapping[RunName, Lines]) -> Table:
    metrics = (*(f"top_{k}" for k in experiment.ranking.top), *FIGURES)
    names = [place.name for place in experiment.places]
    rows: list[Row] = []
    for arm in experiment.arms:
        for size in experiment.ranking.rows:
            for metric in metrics:
                held = {n: _values(experiment, runs, n, arm.name, size, metric) for n in names}
                if len(names) > 1:
                    held[ALL] = _joined(metric, list(held.values()))
                rows += [
                    {
                        "landscape": place,
                        "arm": arm.name,
                        "rows": size,
                        "metric": metric,
                        **spread(np.where(np.isnan(values), np.inf, values)).to_data(),
                    }
                    for place, values in held.items()
                ]
    return Table("ranking", ("landscape", "arm", "rows", "metric", *SPREAD), tuple(rows))


def _values(
    experiment: Experiment,
    runs: Mapping[RunName, Lines],
    place: str,
    arm: str,
    size: int | str,
    metric: str,
) -> NDArray[np.float64]:
    """Return a figure by seed; NaN where there is none."""
    found = []
    for seed in experiment.seeds:
        lines = runs[RunName(place, arm, seed)]
        (line,) = [held for held in lines if held["kind"] == "ranking" and held["rows"] == size]
        found.append(np.nan if line[metric] is None else line[metric])
    return np.array(found, float)


def _joined(metric: str, values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    held = np.array(values)
    return np.asarray(
        1 / (1 / held).mean(axis=0) if metric.startswith("top_") else held.mean(axis=0)
    )


def _importance(experiment: Experiment, runs: Mapping[RunName, Lines]) -> Table:
    """Return the pairwise accuracy lost without each feature, the mean over an arm's landscapes."""
    rows: list[Row] = []
    for arm in experiment.arms:
        lost: dict[str, list[float]] = {}
        for name, lines in runs.items():
            for line in lines if name.arm == arm.name else ():
                if line["kind"] == "importance":
                    lost.setdefault(line["feature"], []).append(line["lost"])
        means = {feature: float(np.mean(held)) for feature, held in lost.items()}
        ordered = sorted(means.items(), key=lambda item: (-item[1], item[0]))
        rows += [{"arm": arm.name, "feature": f, "lost": value} for f, value in ordered]
    return Table("importance", ("arm", "feature", "lost"), tuple(rows))
