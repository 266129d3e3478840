"""The tables of a search experiment, from its runs and what they were run on. Writes nothing.

A table is its columns and its rows. The landscape ``all`` is the geometric mean over landscapes of
each seed's ratios, so that every landscape counts the same; its spread is over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.experiment import finals, noise
from autosched.experiment.curve import Curve
from autosched.experiment.folder import RunName
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import SUITE, Experiment
from autosched.experiment.statistics import Spread, geometric_mean, quantile, spread, spreads
from cost_model.metrics import expected_random_best, performance

ALL = "all"
#: Points of a curve beyond the first few trials, and of one over seconds.
POINTS = 72
FIRST = 24
Row = dict[str, Any]
SPREAD = ("median", "q1", "q3", "low", "high")


@dataclass(frozen=True)
class Table:
    """A name, columns in order, and rows by column."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Results:
    """The runs of an experiment as curves, and the outcomes they were run on, by name."""

    experiment: Experiment
    outcomes: Mapping[str, Outcomes]
    curves: Mapping[RunName, Curve]

    @property
    def places(self) -> list[str]:
        """The landscapes in the order of the file."""
        return list(self.experiment.tried_on)

    @property
    def arms(self) -> list[str]:
        """The arms in the order of the file; the first is what others are compared with."""
        return [arm.name for arm in self.experiment.arms]

    @property
    def horizon_s(self) -> float:
        """When the last run ended."""
        return max(curve.end_s for curve in self.curves.values())

    def seeds_of(self, place: str, arm: str) -> list[Curve]:
        """Return the runs of an arm on a landscape, by seed."""
        return [self.curves[RunName(place, arm, seed)] for seed in self.experiment.seeds]

    def by_seed(
        self, place: str, arm: str, read: Callable[[Curve], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return what ``read`` says of each run [seeds, ...]; of ALL the geometric mean."""
        if place != ALL:
            return np.array([read(curve) for curve in self.seeds_of(place, arm)])
        return geometric_mean([self.by_seed(name, arm, read) for name in self.places])

    def random_best(self, place: str, trials: int) -> NDArray[np.float64]:
        """Return calculated random search's expected best over the best known [trials]; NaN of
        what is no landscape."""
        if place == SUITE or not self.outcomes:
            return np.full(trials, np.nan)
        if place == ALL:
            return geometric_mean([self.random_best(name, trials) for name in self.places])
        held = self.outcomes[place]
        return expected_random_best(held.random_us, trials) / held.optimum_us


def tables(results: Results) -> Iterator[Table]:
    """Yield the tables that the experiment's metrics ask for, and that of the runs."""
    makers = {
        "curves": curves,
        "regret": regret,
        "reach": reach,
        "score": score,
        "failures": failures,
        "noise": noise_floor,
        "finals": final_choices,
    }
    yield runs(results)
    yield from (makers[metric](results) for metric in results.experiment.metrics)


def runs(results: Results) -> Table:
    """Return one row a run: what it found and when it ended."""
    rows = []
    for name, curve in sorted(results.curves.items()):
        found = [t for t in curve.times_us if t is not None]
        rows.append(
            {
                "landscape": name.landscape,
                "arm": name.arm,
                "seed": name.seed,
                "best_us": min(found, default=None),
                "regret": float(curve.after(len(curve.trials))) - 1,
                "trials": len(curve.trials),
                "seconds": curve.end_s,
                "stopped": curve.stopped,
            }
        )
    columns = ("landscape", "arm", "seed", "best_us", "regret", "trials", "seconds", "stopped")
    return Table("runs", columns, tuple(rows))


def curves(results: Results) -> Table:
    """Return best so far over the best known, on both axes."""
    rows = []
    trials = results.experiment.total
    counts = evaluations(trials)
    moments = np.round(np.linspace(0, results.horizon_s, POINTS + 1)[1:], 3)
    for place in places(results):
        chance = results.random_best(place, trials)
        for arm in results.arms:
            after = results.by_seed(place, arm, lambda curve: curve.after(counts))
            for count, held in zip(counts.tolist(), spreads(after), strict=True):
                row = _row(place, arm, "evaluations", count, held)
                rows.append({**row, "random": chance[count - 1]})
            at = results.by_seed(place, arm, lambda curve: curve.at(moments))
            for moment, held in zip(moments.tolist(), spreads(at), strict=True):
                rows.append(_row(place, arm, "seconds", moment, held))
    return Table("curves", ("landscape", "arm", "axis", "at", *SPREAD, "random"), tuple(rows))


def regret(results: Results) -> Table:
    """Return regrets (best so far over the best known, less 1) at the checkpoints of both axes.

    ``ratio`` is the best so far over that of the first arm with the same seed: its median over
    seeds, and the bootstrap interval over pairs.
    """
    rows: list[Row] = []
    plan = results.experiment
    for place in places(results):
        for axis, marks in _axes(results):
            chance = results.random_best(place, plan.total) if axis == "evaluations" else None
            first = results.by_seed(place, results.arms[0], _reader(axis, marks))
            for arm in results.arms:
                held = results.by_seed(place, arm, _reader(axis, marks))
                for n, (mark, over) in enumerate(zip(marks, spreads(held - 1), strict=True)):
                    row = _row(place, arm, axis, mark, over)
                    row |= _paired(held[:, n], first[:, n])
                    if chance is not None:
                        row["random"] = chance[int(mark) - 1] - 1
                    rows.append(row)
    extra = ("ratio", "ratio_low", "ratio_high", "random")
    return Table("regret", ("landscape", "arm", "axis", "at", *SPREAD, *extra), tuple(rows))


def reach(results: Results) -> Table:
    """Return evaluations and seconds until a time is so near the best known.

    Over seeds, and for ALL over every run; a run that never was counts as longer than any other,
    and a quantile that falls on one is empty.
    """
    rows = []
    for place in places(results):
        for arm in results.arms:
            names = results.places if place == ALL else [place]
            held = [curve for name in names for curve in results.seeds_of(name, arm)]
            for within in results.experiment.within:
                counts, seconds = np.array([curve.reach(within) for curve in held]).T
                rows.append(
                    {
                        "landscape": place,
                        "arm": arm,
                        "within": within,
                        "runs": len(held),
                        "reached": int(np.isfinite(counts).sum()),
                        "evaluations_median": float(quantile(counts, 0.5)),
                        "evaluations_p90": float(quantile(counts, 0.9)),
                        "seconds_median": float(quantile(seconds, 0.5)),
                        "seconds_p90": float(quantile(seconds, 0.9)),
                    }
                )
    columns = ("landscape", "arm", "within", "runs", "reached", "evaluations_median")
    more = ("evaluations_p90", "seconds_median", "seconds_p90")
    return Table("reach", (*columns, *more), tuple(rows))


def score(results: Results) -> Table:
    """Return P(t) = (S_random - S) / (S_random - S_best known) against calculated random search.

    At the checkpoints, and ``mean`` over all evaluations; ALL is the mean over landscapes. Until
    a run has a time it is held to have the worst recorded one.
    """
    rows = []
    plan = results.experiment
    marks = np.array(plan.checkpoints)
    held = {arm: [_scores(results, name, arm) for name in results.places] for arm in results.arms}
    for place in places(results):
        for arm in results.arms:
            scores = (
                np.mean(held[arm], axis=0)
                if place == ALL
                else held[arm][results.places.index(place)]
            )
            rows.append(_row(place, arm, "evaluations", "mean", spread(scores.mean(axis=1))))
            over = spreads(scores[:, marks - 1])
            for mark, found in zip(marks.tolist(), over, strict=True):
                rows.append(_row(place, arm, "evaluations", mark, found))
    return Table("score", ("landscape", "arm", "axis", "at", *SPREAD), tuple(rows))


def _scores(results: Results, place: str, arm: str) -> NDArray[np.float64]:
    """Return P after each evaluation [seeds, trials]."""
    outcomes, trials = results.outcomes[place], results.experiment.trials
    worst = float(outcomes.random_us.max() / outcomes.optimum_us)
    chance = results.random_best(place, trials)
    counts = np.arange(1, trials + 1)
    held = results.by_seed(place, arm, lambda curve: curve.after(counts))
    return np.array([performance(np.minimum(row, worst), chance, 1.0) for row in held])


def failures(results: Results) -> Table:
    """Return the census of failures, by kind, and what the landscape itself holds."""
    rows = []
    for place in results.places:
        census = Counter(
            getattr(point.outcome, "kind", None) for point in results.outcomes[place].points
        )
        total = len(results.outcomes[place].points)
        failed = {kind.value: count for kind, count in census.items() if kind is not None}
        rows += _census(place, "(landscape)", failed, total)
        for arm in results.arms:
            held = results.seeds_of(place, arm)
            counted: Counter[str] = Counter()
            for curve in held:
                counted.update(curve.failures)
            rows += _census(place, arm, counted, sum(len(curve.trials) for curve in held))
    columns = ("landscape", "arm", "kind", "failed", "trials", "share")
    return Table("failures", columns, tuple(rows))


def _census(place: str, arm: str, counted: Mapping[str, int], total: int) -> list[Row]:
    rows = [("all", sum(counted.values())), *sorted(counted.items())]
    return [
        {
            "landscape": place,
            "arm": arm,
            "kind": kind,
            "failed": count,
            "trials": total,
            "share": count / total if total else None,
        }
        for kind, count in rows
    ]


def noise_floor(results: Results) -> Table:
    """Return how far two timings of one schedule lie apart on each landscape."""
    rows = [{"landscape": p, **noise.floor(results.outcomes[p].points)} for p in results.places]
    parts = ("count", "median", "p90")
    columns = [f"{kind}_{part}" for kind in ("halves", "finals") for part in parts]
    columns.append("finals_shift")
    return Table("noise", ("landscape", "schedules", *columns), tuple(rows))


def final_choices(results: Results) -> Table:
    """Return the regret of each way to choose at the end, over all runs of an arm."""
    rows = []
    for place in results.places:
        outcomes = results.outcomes[place]
        slower = finals.drifts(outcomes.points)
        for arm in results.arms:
            found: dict[finals.Choice, list[NDArray[np.float64]]] = {}
            for curve in results.seeds_of(place, arm):
                tried = [outcomes.by_key[t["sketch"], tuple(t["choices"])] for t in curve.trials]
                plan = results.experiment.finals
                drawn = finals.regrets(tried, plan, slower, str(curve.name))
                for key, held in drawn.items():
                    found.setdefault(key, []).append(held)
            for (method, entrants, rounds), parts in found.items():
                held = np.concatenate(parts)
                rows.append(
                    {
                        "landscape": place,
                        "arm": arm,
                        "method": method,
                        "entrants": entrants,
                        "rounds": rounds or None,
                        "draws": len(held),
                        "mean": float(held.mean()),
                        "median": float(np.median(held)),
                        "p90": float(np.quantile(held, 0.9)),
                    }
                )
    columns = ("landscape", "arm", "method", "entrants", "rounds", "draws", "mean", "median", "p90")
    return Table("finals", columns, tuple(rows))


def places(results: Results) -> list[str]:
    """Return the landscapes, and ALL where there are several."""
    names = results.places
    return [*names, ALL] if len(names) > 1 else names


def evaluations(trials: int) -> NDArray[np.int64]:
    """Return the counts at which curves are tabulated: the first few, then ever sparser."""
    early = np.arange(1, min(FIRST, trials) + 1)
    if trials <= FIRST:
        return early
    later = np.geomspace(FIRST, trials, POINTS).round().astype(np.int64)
    return np.unique(np.concatenate([early, later]))


def _axes(results: Results) -> list[tuple[str, Sequence[float]]]:
    plan = results.experiment
    seconds = [mark for mark in plan.checkpoints_s if mark < results.horizon_s]
    return [("evaluations", plan.checkpoints), ("seconds", seconds)]


def _reader(axis: str, marks: Sequence[float]) -> Callable[[Curve], NDArray[np.float64]]:
    if axis == "evaluations":
        return lambda curve: curve.after(np.array(marks, np.int64))
    return lambda curve: curve.at(np.array(marks, float))


def _row(place: str, arm: str, axis: str, at: float | str, held: Spread) -> Row:
    return {"landscape": place, "arm": arm, "axis": axis, "at": at, **held.to_data()}


def _paired(held: NDArray[np.float64], first: NDArray[np.float64]) -> Row:
    """Return the spread of ratios by seed; nothing where a seed has no time on either side."""
    if not (np.isfinite(held).all() and np.isfinite(first).all()):
        return {}
    ratios = spread(held / first)
    return {"ratio": ratios.median, "ratio_low": ratios.low, "ratio_high": ratios.high}
