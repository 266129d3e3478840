"""``autosched show``: one workload at any level, with a schedule from a file, a log or a model."""

from __future__ import annotations

import json
from pathlib import Path

import click

from autosched.cli.level import LEVELS, Subject, show
from autosched.cli.output import Output, with_output
from autosched.machine import choose_target
from autosched.spec import Task, load
from measure.log import best, read
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload


class NothingLogged(LookupError):
    """A log without a valid schedule of the workload that was asked for."""


@click.command("show")
@click.argument("spec")
@click.option("--level", type=click.Choice(LEVELS), default="schedule", show_default=True)
@click.option(
    "--schedule",
    "schedule_file",
    envvar="AUTOSCHED_SHOW_SCHEDULE",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show this schedule (JSON).",
)
@click.option(
    "--log",
    metavar="LOG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show the best schedule of this log.",
)
@click.option("--target", metavar="NAME", help="Show it for this target.")
@with_output
def command(
    output: Output,
    spec: str,
    level: str,
    schedule_file: Path | None,
    log: Path | None,
    target: str | None,
) -> None:
    """Print SPEC at a level between formula and machine code.

    Without --schedule and --log, the schedule is the one that the analytic model likes best.
    Needs no GPU.
    """
    if schedule_file and log:
        raise click.UsageError("--schedule and --log both name a schedule; give one")
    hardware = choose_target(target)
    tasks = load(spec)
    for task in tasks:
        subject = Subject(task.workload, hardware, _named(task, hardware, schedule_file, log))
        shown = show(subject, level)
        if output.json:
            key = task.workload.key
            output.value({"id": task.id, "key": key, "level": level, **shown.data})
        else:
            heading = f"# {task.id}\n" if len(tasks) > 1 else ""
            output.text(heading + shown.text.rstrip("\n"))


def _named(
    task: Task, target: Target, schedule_file: Path | None, log: Path | None
) -> Schedule | None:
    if schedule_file:
        return _read(schedule_file)
    return best_schedule(log, task.workload, target) if log else None


def best_schedule(log: Path, workload: Workload, target: Target) -> Schedule:
    """Return the best schedule of a log, a measured one before a predicted one.

    Raises NothingLogged.
    """
    records = read(log).records
    for predicted in (False, True):
        record = best(records, predicted=predicted).get((workload.key, target.name))
        if record is not None:
            return Schedule.from_data(record.schedule)
    raise NothingLogged(
        f"{log} has no valid schedule of {workload.label or workload.key} for {target.name}"
    )


def _read(path: Path) -> Schedule:
    """Read a schedule's JSON, or what ``show --level schedule -f json`` prints around it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Schedule.from_data(data.get("schedule", data) if isinstance(data, dict) else data)
    except (BadSchedule, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSchedule(f"{path}: {error}") from error
