"""``autosched log merge|prune|export|import``: logs made of logs, and other forms of them."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from autosched.cli.log_reading import log_argument, read_log
from autosched.cli.output import Output, with_output
from autosched.cli.wording import count
from measure.disk import StorageError
from measure.log import LogWriter, line_of
from measure.log_forms import NotT4, from_t4, t4_metadata, to_csv, to_t4, trials_of
from measure.log_sets import merge, prune
from measure.record import AnyRecord


def _out(command: str) -> Callable[[Any], Any]:
    return click.option(
        "-o",
        "--output",
        "out",
        envvar=f"AUTOSCHED_LOG_{command}_OUTPUT",
        metavar="FILE",
        required=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file that is not there yet.",
    )


@click.command("merge")
@click.argument(
    "logs",
    metavar="LOG...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@_out("MERGE")
@with_output
def merge_command(output: Output, logs: tuple[Path, ...], out: Path) -> None:
    """Write the records of all LOGs to a new log, each line once."""
    _refuse_existing(out)
    merged = merge(read_log(output, log).records for log in logs)
    _write_log(out, merged.records)
    output.say(
        f"{out}: {count(len(merged.records), 'record')} of {count(len(logs), 'log')}, "
        f"{merged.repeated} repeated"
    )
    if output.json:
        output.value({"log": str(out), "records": len(merged.records), "repeated": merged.repeated})


@click.command("prune")
@log_argument
@_out("PRUNE")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Trials of every workload and target.",
)
@with_output
def prune_command(output: Output, log: Path, out: Path, keep: int) -> None:
    """Write what serves of LOG to a new log: the best of every workload.

    The best record of each stays what it was. Runs can be neither resumed nor replayed from it.
    """
    _refuse_existing(out)
    left = prune(read_log(output, log).records, keep)
    _write_log(out, left.records)
    output.say(
        f"{out}: {count(len(left.records), 'record')}; dropped: "
        f"{count(left.dropped_trials, 'trial')}, {count(left.dropped_others, 'other line')} "
        "(runs, rounds, stops and comparisons of what was dropped)"
    )
    if output.json:
        output.value(
            {
                "log": str(out),
                "records": len(left.records),
                "dropped_trials": left.dropped_trials,
                "dropped_others": left.dropped_others,
            }
        )


@click.command("export")
@log_argument
@click.option("-f", "--form", "form", type=click.Choice(["csv", "t4"]), required=True)
@_out("EXPORT")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def export_command(log: Path, form: str, out: Path, quiet: bool) -> None:
    """Write the trials of LOG as CSV, or as results of the T4 format with metadata beside them.

    T4 keeps whole trials, for ``log import``; CSV leaves out repeats of times and schedules' steps.
    """
    output = Output("table", quiet, verbose=False)
    _refuse_existing(out)
    records = read_log(output, log).records
    trials = trials_of(records)
    if form == "csv":
        _write(out, to_csv(trials).encode())
    else:
        beside = out.with_name(f"{out.stem}-metadata.json")
        _refuse_existing(beside)
        _write(out, _json(to_t4(trials)))
        _write(beside, _json(t4_metadata(trials, platform.platform())))
    output.say(
        f"{out}: {count(len(trials), 'trial')}; {count(len(records) - len(trials), 'line')} of "
        "runs, rounds and comparisons have no place in it"
    )


@click.command("import")
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_out("IMPORT")
@with_output
def import_command(output: Output, results: Path, out: Path) -> None:
    """Write a new log of the trials that RESULTS, a T4 file of ``log export``, holds.

    Results of other tuners are counted and left out: their configurations are no schedules here.
    """
    _refuse_existing(out)
    try:
        found = from_t4(_bytes(results))
    except NotT4 as error:
        raise click.UsageError(f"{results}: {error}") from error
    _write_log(out, found.records)
    output.say(
        f"{out}: {count(len(found.records), 'trial')}; left out: {found.foreign} of other tuners, "
        f"{found.damaged} damaged"
    )
    if output.json:
        value = {"log": str(out), "trials": len(found.records)}
        output.value(value | {"foreign": found.foreign, "damaged": found.damaged})


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise click.UsageError(f"{path} exists already: name a file that does not")


def _write_log(path: Path, records: Iterable[AnyRecord]) -> None:
    _write(path, b"".join(map(line_of, records)))
    LogWriter(path).close()  # what a writer refuses is said now: a network filesystem, say


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all. Raises StorageError."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(path, "cannot be written", error) from error
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(0o644)
        fresh.rename(path)
    except OSError as error:
        raise StorageError(path, "cannot be written", error) from error
    finally:
        fresh.unlink(missing_ok=True)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(path, "cannot be read", error) from error


def _json(data: dict[str, Any]) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
