"""Guided search against random search: same workload, same trials, several seeds.

Knows no strategy: it is handed a function that runs one search, and one that compares winners.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from autosched.bench.contest import Contest, Outcome, Referee
from autosched.bench.row import geometric_mean
from autosched.tune.result import TuningResult
from search_space.program import Program
from search_space.workload import Workload

GUIDED, RANDOM = "guided", "random"
#: Numbers of trials at which curves are tabulated, below the total.
CHECKPOINTS = (8, 16, 32, 64, 128, 256, 512)
RESAMPLES = 2000


@dataclass(frozen=True)
class Search:
    """One search that ran. ``best_us`` is the best measured time after each trial, in
    microseconds (None before the first that worked); ``wall_s`` is how long it took."""

    strategy: str
    seed: int
    best_us: tuple[float | None, ...]
    wall_s: float
    winner: Program | None


#: Runs one search: strategy, seed.
RunSearch = Callable[[str, int], Search]


def best_so_far(times_us: Iterable[float | None]) -> tuple[float | None, ...]:
    """Return the running minimum; a failed trial (None) changes nothing."""
    best: float | None = None
    curve = []
    for time_us in times_us:
        if time_us is not None and (best is None or time_us < best):
            best = time_us
        curve.append(best)
    return tuple(curve)


def search_of(strategy: str, seed: int, result: TuningResult) -> Search:
    """Return what a tuning run was as a search: its curve, its time and its winner."""
    curve = best_so_far(trial.latency_us for trial in result.trials)
    winner = result.best.trial.program if result.best else None
    return Search(strategy, seed, curve, result.elapsed_s, winner)


def search_compare(
    workload: Workload, run_search: RunSearch, referee: Referee, seeds: Sequence[int]
) -> dict[str, Any]:
    """Run both strategies once a seed, in turn, then compare all winners interleaved.

    Returns plain data: ``searches``, ``summary`` (see ``summarize``) and ``final``.
    """
    searches = [run_search(strategy, seed) for seed in seeds for strategy in (GUIDED, RANDOM)]
    winners = {_name(s): s.winner for s in searches if s.winner is not None}
    outcome = referee(Contest(workload, winners, ("torch",)))
    finals = {name: interval.value for name, interval in outcome.times_us.items()}
    return {
        "workload": workload.label,
        "key": workload.key,
        "searches": [_search_data(s, finals.get(_name(s))) for s in searches],
        "summary": summarize(searches, finals),
        "final": _final_data(outcome),
    }


def summarize(searches: Sequence[Search], finals: Mapping[str, float]) -> dict[str, Any]:
    """Return by how much guided search won: ratios are random's time over guided's.

    ``final_ratio`` is the geometric mean over seeds of the winners' interleaved times, with a
    bootstrap interval over seeds; ``catch_up_trials`` how many trials guided search took, by
    seed, to reach what random search had at its end (None: never).
    """
    pairs = _pairs(searches)
    ratios = [
        finals[_name(r)] / finals[_name(g)]
        for g, r in pairs
        if _name(r) in finals and _name(g) in finals
    ]
    low, high = _bootstrap(ratios, random.Random(0))
    return {
        "seeds": len(pairs),
        "final_ratio": geometric_mean(ratios),
        "final_ratio_low": low,
        "final_ratio_high": high,
        "final_ratios": ratios,
        "catch_up_trials": [_catch_up(g, r) for g, r in pairs],
        "curve": [_checkpoint(searches, n) for n in _checkpoints(searches)],
    }


def _pairs(searches: Sequence[Search]) -> list[tuple[Search, Search]]:
    by = {(s.strategy, s.seed): s for s in searches}
    seeds = dict.fromkeys(s.seed for s in searches)
    return [(by[GUIDED, seed], by[RANDOM, seed]) for seed in seeds]


def _catch_up(guided: Search, rival: Search) -> int | None:
    goal = rival.best_us[-1] if rival.best_us else None
    for trial, time_us in enumerate(guided.best_us, 1):
        if time_us is not None and (goal is None or time_us <= goal):
            return trial
    return None


def _checkpoints(searches: Sequence[Search]) -> list[int]:
    total = max((len(s.best_us) for s in searches), default=0)
    return [n for n in CHECKPOINTS if n < total] + ([total] if total else [])


def _checkpoint(searches: Sequence[Search], trials: int) -> dict[str, Any]:
    row: dict[str, Any] = {"trials": trials}
    for strategy in (GUIDED, RANDOM):
        curves = [s.best_us[:trials] for s in searches if s.strategy == strategy and s.best_us]
        reached = [curve[-1] for curve in curves if curve[-1] is not None]
        row[strategy] = _quartiles(reached) if len(reached) == len(curves) else None
    return row


def _quartiles(values: Sequence[float]) -> list[float]:
    """Return lower quartile, median and upper quartile."""
    if len(values) < 2:
        return list(values) * 3
    low, _, high = quantiles(values, n=4, method="inclusive")
    return [low, median(values), high]


def _bootstrap(ratios: Sequence[float], rng: random.Random) -> tuple[float | None, float | None]:
    """Return the 95 % percentile interval of the geometric mean, seeds drawn with replacement."""
    if len(ratios) < 2:
        return None, None
    drawn = (geometric_mean(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    means = sorted(mean for mean in drawn if mean is not None)
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def _name(search: Search) -> str:
    return f"{search.strategy}-{search.seed}"


def _search_data(search: Search, final_us: float | None) -> dict[str, Any]:
    return {
        "strategy": search.strategy,
        "seed": search.seed,
        "trials": len(search.best_us),
        "wall_s": round(search.wall_s, 2),
        "best_us": list(search.best_us),
        "final_us": final_us,
        "fingerprint": search.winner.fingerprint if search.winner else None,
    }


def _final_data(outcome: Outcome) -> dict[str, Any]:
    return {
        "times_us": {name: [t.value, t.low, t.high] for name, t in outcome.times_us.items()},
        "rel_err": dict(outcome.rel_err),
        "failures": dict(outcome.failures),
    }


def write(path: Path, comparisons: Sequence[Mapping[str, Any]], origin: Mapping[str, Any]) -> None:
    """Write comparisons to ``path`` as JSON and, beside it, as Markdown.

    ``origin`` holds machine, versions, date and command.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {**origin, "comparisons": list(comparisons)}
    path.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    named = "; ".join(f"{name} {value}" for name, value in origin["machine"].items())
    tools = ", ".join(f"{name} {value}" for name, value in origin["versions"].items())
    head = ["# Guided search against random search", "", f"Machine: {named}. Versions: {tools}."]
    head += ["", f"    {origin['command']}    # {origin['date']}", ""]
    text = "\n".join(head) + "\n" + "\n".join(table(entry) for entry in comparisons)
    path.with_suffix(".md").write_text(text, "utf-8")


def table(data: Mapping[str, Any]) -> str:
    """Return one comparison as Markdown."""
    summary = data["summary"]
    lines = [f"## {data['workload']}", "", _verdict(summary), ""]
    if data.get("predicted"):
        lines += ["**Times are predicted by a model, not measured.**", ""]
    lines += [
        "| trials | guided, best so far (us) | random, best so far (us) |",
        "|---:|---:|---:|",
    ]
    for row in summary["curve"]:
        lines.append(f"| {row['trials']} | {_spread(row[GUIDED])} | {_spread(row[RANDOM])} |")
    lines += ["", "| seed | guided, final (us) | random, final (us) | guided caught up after |"]
    lines.append("|---:|---:|---:|---:|")
    finals = {(s["strategy"], s["seed"]): s["final_us"] for s in data["searches"]}
    seeds = dict.fromkeys(s["seed"] for s in data["searches"])
    for seed, caught in zip(seeds, summary["catch_up_trials"], strict=True):
        cells = (finals[GUIDED, seed], finals[RANDOM, seed])
        guided, rival = ("-" if c is None else f"{c:.4g}" for c in cells)
        lines.append(f"| {seed} | {guided} | {rival} | {caught if caught else 'never'} |")
    return "\n".join(lines) + "\n"


def _verdict(summary: Mapping[str, Any]) -> str:
    ratio = summary["final_ratio"]
    if ratio is None:
        return "No pair of winners could be compared."
    spread = ""
    if summary["final_ratio_low"] is not None:
        spread = f" [{summary['final_ratio_low']:.3f}, {summary['final_ratio_high']:.3f}]"
    return (
        f"Random search's winner over guided search's, geometric mean of {summary['seeds']} seeds, "
        f"winners re-measured interleaved: **{ratio:.3f}**{spread} (above 1: guided is faster). "
        "Curves: median over seeds and quartiles of the best time measured so far."
    )


def _spread(values: Sequence[float] | None) -> str:
    if not values:
        return "-"
    return f"{values[1]:.4g} [{values[0]:.4g}, {values[2]:.4g}]"
