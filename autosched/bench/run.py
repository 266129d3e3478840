"""Run a suite: tune if asked, compare each workload, write after each.

Knows no device and no tuner: both are handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from autosched.bench import report
from autosched.bench.alignment import kind
from autosched.bench.contest import Contest, Outcome, Referee
from autosched.bench.roofline import roofline_us
from autosched.bench.row import Interval, Row
from autosched.runtime.served import Served
from autosched.tune.result import TuningResult
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

OURS = "ours"
#: What a second tuning at quick effort found, where that was asked for.
QUICK = "quick"


class Entry(Protocol):
    """A workload of a suite, by its name there; specs are read into such."""

    @property
    def id(self) -> str:
        """The workload's name in the suite."""

    @property
    def workload(self) -> Workload:
        """The workload."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The groups that the suite counts it to."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What tuning one workload took: trials, seconds, and candidates built, verified and timed
    a second, and the best of the first 8 trials over the best of all."""

    trials: int
    tune_s: float
    candidates_per_s: float | None = None
    first8_ratio: float | None = None

    @staticmethod
    def of(result: TuningResult) -> Tuning:
        """Take the figures of a tuning run."""
        times = [trial.latency_us for trial in result.trials]
        return Tuning(len(times), result.elapsed_s, result.trials_per_s, first8_ratio(times))


def first8_ratio(times_us: Sequence[float | None]) -> float | None:
    """Return the best of the first 8 times over the best of all; None where either is missing."""
    early = [time_us for time_us in times_us[:8] if time_us is not None]
    valid = [time_us for time_us in times_us if time_us is not None]
    return min(early) / min(valid) if early else None


@dataclass(frozen=True, slots=True)
class Quick:
    """What quick effort came to: what it would serve, its trials, and the seconds it took, from
    opening the device on."""

    served: Served
    trials: int
    seconds: float


@dataclass(frozen=True)
class Bench:
    """Everything a run needs, chosen by whoever assembles it.

    ``tune`` searches one workload and logs it (None: the log is taken as it is). ``serve`` reads
    the log anew and says what would serve. ``referee`` compares. ``against`` names libraries.
    ``quick`` searches one workload at quick effort, knowing nothing of any log; it goes first, so
    that it builds everything that it measures.
    """

    suite: str
    target: Target
    against: tuple[str, ...]
    serve: Callable[[Workload], Served]
    referee: Referee
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    date: str
    command: str
    tune: Callable[[Entry], Tuning] | None = None
    quick: Callable[[Entry], Quick] | None = None
    #: What the log knows of earlier tuning, by workload key; used where ``tune`` is None.
    tuned_before: Callable[[Workload], Tuning | None] = field(default=lambda _: None)
    predicted: bool = False
    rounds: int = 50
    seed: int = 0

    @property
    def file_name(self) -> str:
        """The name of the results file: suite and GPU model; predictions lie apart."""
        return f"{self.suite}-{self.target.name}{'-predicted' if self.predicted else ''}.json"


def run(
    bench: Bench, tasks: Sequence[Entry], *, only: Sequence[str] = (), out: Path
) -> Iterator[Row]:
    """Yield the row of each workload after merging it into ``out``.

    ``only`` picks workloads by name; others keep the rows they have. Raises BadResults before
    anything is measured where ``out`` holds results of another GPU, ValueError on a name that
    is not in the suite.
    """
    path = out / bench.file_name
    order = [task.id for task in tasks]
    _merged(bench, path, order, [])
    for task in _picked(tasks, only):
        row = measure_row(bench, task)
        report.write(path, _merged(bench, path, order, [row]))
        yield row


def measure_row(bench: Bench, task: Entry) -> Row:
    """Tune one workload if asked, then compare what serves it with the libraries."""
    workload = task.workload
    quick = bench.quick(task) if bench.quick else None
    begun = time.monotonic()
    tuning = bench.tune(task) if bench.tune else bench.tuned_before(workload)
    tuned = time.monotonic()
    served = bench.serve(workload)
    programs = _programs(served, quick)
    outcome = bench.referee(Contest(workload, programs, bench.against, bench.rounds, bench.seed))
    setup = {f"{name}_s": s for name, s in outcome.setup_s.items() if name in bench.against}
    spent = {"tune_s": tuned - begun, "compare_s": time.monotonic() - tuned} | setup
    return Row(
        workload=task.id,
        label=workload.label,
        key=workload.key,
        times_us=outcome.times_us,
        ratios=_ratios(outcome),
        roofline_us=roofline_us(workload, bench.target),
        operations=workload.operations,
        source=served.source,
        sketch=served.schedule.sketch if served.schedule else None,
        fingerprint=served.program.fingerprint if served.program else None,
        trials=tuning.trials if tuning else None,
        tune_s=tuning.tune_s if tuning else None,
        candidates_per_s=tuning.candidates_per_s if tuning else None,
        rel_err=outcome.rel_err.get(OURS),
        predicted=bench.predicted,
        host_us=outcome.host_us,
        notes=tuple(_notes(served, quick, outcome)),
        constant=workload.constants,
        kind=kind(workload),
        first8_ratio=tuning.first8_ratio if tuning else None,
        verified_seeds=outcome.verified_seeds.get(OURS),
        bench_s=spent,
        max_error=outcome.max_error.get(OURS),
        forms=outcome.forms,
        setup_s=outcome.setup_s,
        quick_s=quick.seconds if quick else None,
        quick_trials=quick.trials if quick else None,
        tags=task.tags,
    )


def _programs(served: Served, quick: Quick | None) -> dict[str, Program]:
    """Return what is compared, by name; quick effort only beside what serves."""
    if served.program is None:
        return {}
    if quick is None or quick.served.program is None:
        return {OURS: served.program}
    return {OURS: served.program, QUICK: quick.served.program}


def _ratios(outcome: Outcome) -> dict[str, Interval]:
    """Keep the others' ratios, which only mean something where ours is the yardstick."""
    if OURS not in outcome.times_us:
        return {}
    return {name: ratio for name, ratio in outcome.ratios.items() if name != OURS}


def _notes(served: Served, quick: Quick | None, outcome: Outcome) -> Iterator[str]:
    if served.source != "tuned":
        yield served.reason
    if quick and quick.served.source != "tuned":
        yield f"{QUICK}: {quick.served.reason}"
    for name, reason in outcome.failures.items():
        yield f"OURS HAS NO TIME: {reason}" if name == OURS else f"{name}: {reason}"
    for name, forms in outcome.refused.items():
        if name not in outcome.failures:
            yield from (f"{name} not by {form}" for form in forms)


def _picked(tasks: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    known = {task.id for task in tasks}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not in the suite; it has {', '.join(sorted(known))}")
    return [task for task in tasks if not only or task.id in only]


def _merged(bench: Bench, path: Path, order: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    new = {
        "suite": bench.suite,
        "machine": dict(bench.machine),
        "versions": dict(bench.versions),
        "date": bench.date,
        "command": bench.command,
        "against": list(bench.against),
        "rows": [row.to_data(bench.against) for row in rows],
    }
    return report.merge(report.read(path), new, order)
