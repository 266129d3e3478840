"""Runs as curves: the best so far, over evaluations and over seconds. Knows no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autosched.experiment.folder import RunName
from cost_model.metrics import incumbents


@dataclass(frozen=True)
class Curve:
    """One run. ``times_us`` and ``at_s`` are of its trials in order: what each took on the GPU
    (None if it failed) and when its outcome was there. Times are over ``optimum_us``, the best
    known of the landscape, where they are called ratios."""

    name: RunName
    workload: str | Sequence[str]
    optimum_us: float
    roof_us: float
    times_us: tuple[float | None, ...]
    at_s: tuple[float, ...]
    failures: Mapping[str, int]
    stopped: str
    end_s: float
    trials: tuple[Mapping[str, Any], ...]

    @staticmethod
    def of(name: RunName, lines: Sequence[Mapping[str, Any]]) -> Curve:
        """Read the lines of a run."""
        head, stop = lines[0], lines[-1]
        trials = tuple(line for line in lines if line["kind"] == "trial")
        return Curve(
            name=name,
            workload=head["workload"],
            optimum_us=head["optimum_us"],
            roof_us=head["roof_us"],
            times_us=tuple(_totals(trials, head["workload"])),
            at_s=tuple(t["at_s"] for t in trials),
            failures=Counter(t["failure"] for t in trials if t["failure"]),
            stopped=stop["reason"],
            end_s=stop["at_s"],
            trials=trials,
        )

    @cached_property
    def ratios(self) -> NDArray[np.float64]:
        """Best so far over the best known, after each trial; infinite before the first time."""
        return incumbents(self.times_us) / self.optimum_us

    @cached_property
    def _by_time(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        order = np.argsort(self.at_s, kind="stable")
        times = list(_totals([self.trials[n] for n in order], self.workload))
        return np.asarray(self.at_s, float)[order], incumbents(times) / self.optimum_us

    def after(self, evaluations: ArrayLike) -> NDArray[np.float64]:
        """Return the ratio after so many evaluations; a run that has ended stays where it was."""
        return _held(self.ratios, np.asarray(evaluations))

    def at(self, seconds: ArrayLike) -> NDArray[np.float64]:
        """Return the ratio at moments of the run's clock."""
        moments, ratios = self._by_time
        return _held(ratios, np.searchsorted(moments, np.asarray(seconds), side="right"))

    def reach(self, within: float) -> tuple[float, float]:
        """Return evaluations and seconds until a time is within a share of the best known.

        Infinite where that never was.
        """
        near = np.flatnonzero(self.ratios <= 1 + within)
        moments, ratios = self._by_time
        early = np.flatnonzero(ratios <= 1 + within)
        return (
            float(near[0] + 1) if len(near) else float("inf"),
            float(moments[early[0]]) if len(early) else float("inf"),
        )


def _totals(
    trials: Sequence[Mapping[str, Any]], workload: str | Sequence[str]
) -> Iterator[float | None]:
    """Yield the time of each trial, None where it has none that counts; of a run over several
    workloads the sum of the best so far of all, None until each has one."""
    times = (None if trial["quarantined"] else trial["us"] for trial in trials)
    if isinstance(workload, str):
        yield from times
        return
    best: list[float | None] = [None] * len(workload)
    for trial, time_us in zip(trials, times, strict=True):
        n = trial["task"]
        best[n] = min((us for us in (best[n], time_us) if us is not None), default=None)
        known = [us for us in best if us is not None]
        yield sum(known) if len(known) == len(best) else None


def _held(ratios: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the ratios after ``counts`` trials; infinite after none."""
    padded = np.concatenate([[np.inf], ratios])
    return np.asarray(padded[np.minimum(counts, len(ratios))])
