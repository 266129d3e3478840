"""Says what was found: a workload's best, or why there is none; and what became of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from autosched.cli import outcome, wording
from autosched.cli.output import Output
from autosched.machine import Machine
from autosched.spec import Task
from autosched.tune.result import TuningResult
from autosched.tune.suite import SuiteResult
from measure.measurement import Failed

COLUMNS = ("workload", "weight", "turns", "trials", "failed", "best us", "ratio", "state")


def show(output: Output, task: Task, machine: Machine, result: TuningResult, log: Path) -> None:
    """Say what a run found; why nothing was found is no data."""
    if output.json:
        output.value(outcome.data(task, machine, result, log))
    elif result.best is not None:
        output.text("\n".join(outcome.lines(result, result.best, log)))
    if result.best is None:
        click.echo(f"autosched: {_nothing(task, result)}", err=True)


def _nothing(task: Task, result: TuningResult) -> str:
    label = task.workload.label or task.id
    failures = [t.measurement for t in result.trials if isinstance(t.measurement, Failed)]
    if not failures:
        return f"{label}: no schedule was tried ({result.stopped})"
    counts = Counter(f"{failure.kind}: {failure.detail}" for failure in failures)
    (commonest, count), *_ = counts.most_common(1)
    return (
        f"{label}: no valid schedule in {len(result.trials)} trials "
        f"({outcome.census(result)}); {count} times: {commonest}"
    )


def show_suite(
    output: Output, tasks: Sequence[Task], machine: Machine, result: SuiteResult, log: Path
) -> None:
    """Say of each task what was found; then, but for JSON, how far all have come, in a table."""
    for task, found, turns, state in zip(
        tasks, result.results, result.turns, result.states, strict=True
    ):
        if output.json:
            data = (
                outcome.absent(task, machine, result.stopped, log)
                if found is None
                else outcome.data(task, machine, found, log)
            )
            output.value({**data, "weight": task.weight, "turns": turns, "state": state})
        elif found is not None and found.best is not None:
            output.text("\n".join(outcome.lines(found, found.best, log)))
        if found is None:
            text = f"{task.workload.label or task.id}: not started ({result.stopped})"
            click.echo(f"autosched: {text}", err=True)
        elif found.best is None:
            click.echo(f"autosched: {_nothing(task, found)}", err=True)
    if not output.json:
        output.table(COLUMNS, list(_rows(tasks, result)))
        output.text(_all(result))


def _rows(tasks: Sequence[Task], result: SuiteResult) -> Iterator[list[str]]:
    for task, found, turns, state in zip(
        tasks, result.results, result.turns, result.states, strict=True
    ):
        best = found.best if found else None
        ratio = best.ratio_to_library if best else None
        yield [
            task.id,
            f"{task.weight:g}",
            str(turns),
            str(len(found.trials) if found else 0),
            str(sum(found.failures.values()) if found else 0),
            f"{best.timing.latency_us:.4g}" if best else "-",
            f"{ratio.median:.4g}" if ratio else "-",
            state if found is None else f"{state}: {found.stopped}",
        ]


def _all(result: SuiteResult) -> str:
    found = [one for one in result.results if one is not None]
    trials = sum(len(one.trials) for one in found)
    measured = trials - sum(one.recorded for one in found)
    rate = measured / result.elapsed_s if result.elapsed_s > 0 else 0.0
    states = Counter(result.states)
    parts = [f"{states[state]} {state}" for state in ("done", "partial", "not started")]
    return (
        f"{len(result.results)} workloads ({', '.join(p for p in parts if p[0] != '0')}), "
        f"{trials} trials, {rate:.1f} candidates/s, {wording.duration(result.elapsed_s)} in all"
        + (f"; stopped: {result.stopped}" if result.stopped else "")
    )
