"""``autosched log``: the best of a log, its damage, its census; for others see ``log_files``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from autosched.cli import wording
from autosched.cli.exit_code import ExitCode
from autosched.cli.log_files import export_command, import_command, merge_command, prune_command
from autosched.cli.log_reading import log_argument, place, read_log
from autosched.cli.output import Output, with_output
from measure.log import best, read
from measure.record import (
    AnyRecord,
    Failing,
    FinalRecord,
    RunRecord,
    StopRecord,
    Success,
    SuiteRecord,
    TrialRecord,
)


@click.group("log", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Read a log: its best records, its damage, its census; make others of it."""


for _made in (merge_command, prune_command, export_command, import_command):
    command.add_command(_made)


@command.command("best")
@log_argument
@click.option("--predicted", is_flag=True, help="Include times that a model made up.")
@with_output
def best_command(output: Output, log: Path, predicted: bool) -> None:
    """Print the best record of every workload and target in LOG."""
    contents = read_log(output, log)
    rows = [
        _best_row(record, _final_of(contents.records, record))
        for record in best(contents.records, predicted=predicted).values()
    ]
    hidden = sum(record.predicted for record in contents.trials)
    if not predicted and hidden:
        output.say(f"{hidden} predicted records are not shown; --predicted includes them")
    if output.json:
        output.value(rows)
        return
    columns = ("workload", "target", "best us", "ratio", "sketch", "choices", "measured")
    output.table(columns, [_best_cells(row) for row in rows])


def _final_of(records: Iterable[AnyRecord], trial: TrialRecord) -> FinalRecord | None:
    """Return the last final that ``trial`` won, or None."""
    finals = [r for r in records if isinstance(r, FinalRecord) and r.run == trial.run]
    won = (final for final in reversed(finals) if _winner(final) == trial.trial)
    return next(won, None)


def _winner(final: FinalRecord) -> int | None:
    if final.best is None or final.best >= len(final.entrants):
        return None
    return final.entrants[final.best].trial


def _best_row(record: TrialRecord, final: FinalRecord | None) -> dict[str, Any]:
    assert isinstance(record.measurement, Success)  # noqa: S101 (``best`` takes no other)
    timing = record.measurement.timing
    ratio = None
    if final is not None and final.best is not None:
        entrant = final.entrants[final.best]
        timing, ratio = entrant.timing or timing, entrant.ratio
    return {
        "key": record.workload.key,
        "label": record.workload.label,
        "target": record.target,
        "gpu": record.gpu,
        "latency_us": timing.latency_us,
        "low_us": timing.low_us,
        "high_us": timing.high_us,
        "ratio": ratio,
        "predicted": record.predicted,
        "constant": list(record.evidence.constant) if record.evidence else [],
        "program": record.program,
        "run": record.run,
        "trial": record.trial,
        "schedule": record.schedule,
        "provenance": record.provenance.model_dump(),
    }


def _best_cells(row: dict[str, Any]) -> list[str]:
    schedule, ratio = row["schedule"], row["ratio"]
    choices = schedule.get("choices", {})
    return [
        row["label"] or row["key"],
        row["target"],
        wording.interval(row["latency_us"], row["low_us"], row["high_us"]),
        wording.interval(*ratio) if ratio else "-",
        str(schedule.get("sketch", "hand")) + wording.constant(row["constant"]),
        " ".join(f"{name}={value}" for name, value in choices.items()),
        "predicted" if row["predicted"] else f"{row['gpu']} {row['provenance']['time'][:10]}",
    ]


@command.command("check")
@log_argument
@with_output
@click.pass_context
def check_command(ctx: click.Context, /, output: Output, log: Path) -> None:
    """Name every damaged line of LOG; exit 0 if there is none, else 1."""
    contents = read(log)
    if output.json:
        named = [{"line": d.line, "reason": d.reason} for d in contents.damage]
        output.value({"log": str(log), "records": len(contents.records), "damage": named})
    else:
        for damage in contents.damage:
            output.text(place(log, damage))
        found = len(contents.damage)
        state = f"{found} damaged" if found else "sound"
        output.text(f"{log}: {len(contents.records)} records, {state}")
    ctx.exit(ExitCode.NO if contents.damage else ExitCode.DONE)


@command.command("stats")
@log_argument
@with_output
def stats_command(output: Output, log: Path) -> None:
    """Count what LOG holds, run by run."""
    contents = read_log(output, log)
    rows = [_run_row(run, contents.records) for run in _runs(contents.records)]
    if output.json:
        output.value(rows)
        return
    columns = ("workload", "target", "device", "trials", "failed", "best us", "failures", "ended")
    output.table(columns, [_run_cells(row) for row in rows])


def _runs(records: Iterable[AnyRecord]) -> list[str]:
    return list(dict.fromkeys(r.run for r in records if not isinstance(r, SuiteRecord)))


def _run_row(run: str, records: Iterable[AnyRecord]) -> dict[str, Any]:
    own = [record for record in records if record.run == run]
    trials = [record for record in own if isinstance(record, TrialRecord)]
    started = _first(own, RunRecord)
    stopped = _first(reversed(own), StopRecord)
    failures = Counter(t.measurement.kind for t in trials if isinstance(t.measurement, Failing))
    times_us = [t.latency_us for t in trials if t.latency_us is not None]
    return {
        "run": run,
        "label": trials[0].workload.label if trials else None,
        "target": own[0].target if isinstance(own[0], RunRecord | TrialRecord) else None,
        "device": started.device if started else None,
        "trials": len(trials),
        "failures": dict(failures),
        "latency_us": min(times_us, default=None),
        "predicted": any(t.predicted for t in trials),
        "began": own[0].provenance.time,
        "ended": own[-1].provenance.time,
        "stopped": stopped.reason if stopped else None,
    }


def _first(records: Iterable[AnyRecord], kind: Callable[..., Any]) -> Any:
    return next((record for record in records if isinstance(record, kind)), None)  # type: ignore[arg-type]


def _run_cells(row: dict[str, Any]) -> list[str]:
    best_us = row["latency_us"]
    mark = " predicted" if row["predicted"] else ""
    return [
        row["label"] or row["run"],
        row["target"] or "-",
        row["device"] or "-",
        str(row["trials"]),
        str(sum(row["failures"].values())),
        "-" if best_us is None else f"{best_us:.4g}{mark}",
        wording.census(row["failures"]),
        f"{row['ended'][:16]} {row['stopped'] or 'did not end'}",
    ]
