"""``autosched bench``: compare with PyTorch, in turns, workload by workload."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autosched.assemble import Wishes
from autosched.bench.contest import LIBRARIES
from autosched.bench.device import open_bench
from autosched.bench.row import Row
from autosched.bench.run import Bench, Entry, Tuning, run
from autosched.cli import wording
from autosched.cli.output import Output, with_output
from autosched.cli.tune_command import Flags, tune_one
from autosched.machine import Machine, choose_machine, unknown
from autosched.spec import Task, load
from autosched.tune.options import EFFORTS
from measure.crew import Crew
from measure.log import LogWriter

SUFFIXES = (".yaml", ".yml")
QUICK_COLUMNS = ("quick us", "ours / quick ratio", "quick s")


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    del ctx, parameter
    return tuple(filter(None, (name.strip() for name in (value or "").split(","))))


@click.command("bench")
@click.argument("suite")
@click.option("--tune", is_flag=True, help="Tune every workload first, into --log.")
@click.option(
    "--log",
    metavar="LOG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Serve from this log.  [default: with --tune, tuned.jsonl]",
)
@click.option(
    "--against",
    metavar="NAME,...",
    default="torch",
    show_default=True,
    callback=_names,
    help="Baselines: torch, inductor.",
)
@click.option("--only", metavar="ID,...", callback=_names, help="These workloads of the suite.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Merge the results into files here.",
)
@click.option("--device", metavar="auto|cuda[:N]|model", default="auto", show_default=True)
@click.option("--target", metavar="NAME", help="Hardware data.  [default: the GPU's]")
@click.option("--rounds", type=click.IntRange(min=3), default=50, show_default=True)
@click.option("--trials", metavar="N", type=click.IntRange(min=1), help="With --tune.")
@click.option("--effort", type=click.Choice(list(EFFORTS)), help="With --tune.")
@click.option("--seed", metavar="N", type=click.IntRange(0, 2**31), help="[default: 0]")
@click.option(
    "--also-quick",
    is_flag=True,
    help="Tune at quick effort too, into new logs below --out, and compare what it finds.",
)
@with_output
def command(
    output: Output,
    suite: str,
    tune: bool,
    log: Path | None,
    against: tuple[str, ...],
    only: tuple[str, ...],
    out: Path,
    device: str,
    target: str | None,
    rounds: int,
    trials: int | None,
    effort: str | None,
    seed: int | None,
    also_quick: bool,
) -> None:
    """Compare what a log serves with PyTorch on every workload of SUITE.

    GPU time alone, in turns, on fresh data. Without a GPU, times are predicted.
    """
    tasks = load(suite)
    _check("workload", only, [task.id for task in tasks])
    _check("baseline", against, LIBRARIES)
    machine = choose_machine(device, target)
    output.say(machine.reason)
    log = log or (Path("tuned.jsonl") if tune else None)
    flags = Flags(effort=effort, trials=trials, seed=seed)
    name = Path(suite).stem if suite.endswith(SUFFIXES) else "inline"
    with (
        Crew() as crew,
        open_bench(
            name,
            target=machine.target,
            device=machine.device,
            log=log,
            against=against,
            tune=_tuning(output, machine, flags, log, crew) if tune and log else None,
            quick=_quick(output, machine, seed, crew) if also_quick else None,
            quick_logs=out / f"{name}-{machine.target.name}-quick",
            date=datetime.now(UTC).date().isoformat(),
            command=shlex.join(["autosched", *sys.argv[1:]]),
            rounds=rounds,
            seed=seed or 0,
        ) as bench,
    ):
        rows = _run(output, bench, tasks, only, out)
    if not output.json:
        quick = [row.quick_s is not None for row in rows]
        output.table(
            [*_columns(against), *(QUICK_COLUMNS if any(quick) else ())],
            [[*_cells(row, against), *(_quick_cells(row) if any(quick) else ())] for row in rows],
        )
        output.say(f"written to {out / bench.file_name} and the table beside it")


def _check(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(what, name, known)


def _tuning(
    output: Output, machine: Machine, flags: Flags, log: Path, crew: Crew
) -> Callable[[Entry], Tuning]:
    return lambda entry: _tune(output, machine, flags, log, crew, entry)


def _quick(
    output: Output, machine: Machine, seed: int | None, crew: Crew
) -> Callable[[Entry, Path], Tuning]:
    """Return what searches at quick effort, whatever else the command or the suite says."""
    flags = Flags(effort="quick", seed=seed)
    return lambda entry, log: _tune(output, machine, flags, log, crew, entry)


def _tune(
    output: Output, machine: Machine, flags: Flags, log: Path, crew: Crew, entry: Entry
) -> Tuning:
    assert isinstance(entry, Task)  # noqa: S101 (suites are loaded as tasks)
    wishes: Wishes = flags.wishes(entry.options)
    with LogWriter(log) as writer:
        result = tune_one(output, entry, machine, wishes, writer, crew=crew)
    if result.interrupted:
        raise KeyboardInterrupt
    return Tuning.of(result)


def _run(
    output: Output, bench: Bench, tasks: tuple[Task, ...], only: tuple[str, ...], out: Path
) -> list[Row]:
    rows = []
    for row in run(bench, tasks, only=only, out=out):
        rows.append(row)
        for note in row.notes:
            output.say(f"{row.workload}: {note}")
        if output.json:
            output.value(row.to_data(bench.against))
        else:
            spent = ", ".join(f"{name} {seconds:.1f}" for name, seconds in row.bench_s.items())
            output.say(f"{row.workload}: done ({spent})")
    return rows


def _columns(against: tuple[str, ...]) -> list[str]:
    ratios = [f"{name} / ours ratio" for name in against]
    return ["workload", "ours us", *(f"{name} us" for name in against), *ratios, "source", "sketch"]


def _cells(row: Row, against: tuple[str, ...]) -> list[str]:
    def cell(held: Any, name: str) -> str:
        interval = held.get(name)
        return wording.interval(interval.value, interval.low, interval.high) if interval else "-"

    times = [cell(row.times_us, name) for name in ("ours", *against)]
    ratios = [cell(row.ratios, name) for name in against]
    mark = "predicted, " if row.predicted else ""
    name = row.workload + wording.constant(row.constant)
    return [name, *times, *ratios, f"{mark}{row.source}", row.sketch or "-"]


def _quick_cells(row: Row) -> list[str]:
    time_us, share = row.times_us.get("quick"), row.quick_share
    found = [
        wording.interval(held.value, held.low, held.high) if held else "-"
        for held in (time_us, share)
    ]
    return [*found, "-" if row.quick_s is None else f"{row.quick_s:.1f}"]
