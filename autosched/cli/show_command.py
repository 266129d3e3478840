"""``autosched show``: one workload at any level between formula and machine code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from autosched import assemble
from autosched.cli import wording
from autosched.cli.nest_text import nest_text
from autosched.cli.output import Output, with_output
from autosched.codegen.render import render
from autosched.runtime.default import default_schedules
from autosched.spec import Task, load
from autosched.te import text
from measure.builder import compile_text
from measure.log import best, read
from search_space.apply import replay
from search_space.nest import Nest, initial
from search_space.program import Program
from search_space.rules import NoSketch, sketches
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload


class NothingLogged(LookupError):
    """A log without a valid schedule of the workload that was asked for."""


COMPILED = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
LEVELS = ("te", "nest", "sketches", "schedule", "triton", *COMPILED)


@dataclass(frozen=True)
class Subject:
    """What is shown. ``chosen`` is None until a level needs a schedule that nobody named."""

    workload: Workload
    target: Target
    chosen: Schedule | None

    @property
    def schedule(self) -> Schedule:
        """The schedule that was named, else the one that the analytic model likes best."""
        if self.chosen is not None:
            return self.chosen
        defaults = default_schedules(self.workload, self.target)
        if not defaults:
            raise NoSketch("no legal schedule is known for this computation on this target")
        return defaults[0].schedule

    @property
    def program(self) -> Program:
        """What the schedule renders to."""
        return render(self.workload, self.schedule, self.target)


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
    hardware = assemble.choose_target(target)
    for task in load(spec):
        subject = Subject(task.workload, hardware, _named(task, hardware, schedule_file, log))
        data = _LEVELS[level](subject) if level in _LEVELS else _compiled(subject, level)
        _write(output, task, level, data)


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


def _write(output: Output, task: Task, level: str, shown: Shown) -> None:
    if output.json:
        output.value({"id": task.id, "key": task.workload.key, "level": level, **shown.data})
    else:
        output.text(shown.text.rstrip("\n"))


@dataclass(frozen=True)
class Shown:
    """One level of one workload, as text and as plain data."""

    text: str
    data: dict[str, Any]


def _plain(name: str, written: str) -> Shown:
    return Shown(written, {name: written})


def _te(subject: Subject) -> Shown:
    return _plain("te", text.format(subject.workload))


def _nest(subject: Subject) -> Shown:
    """Show the nest before any step, or, where a schedule was named, after all of them."""
    if subject.chosen is None:
        nests: tuple[Nest, ...] = (initial(subject.workload),)
    else:
        nests = replay(subject.workload, subject.chosen)
    return _plain("nest", "\n".join(nest_text(nest) for nest in nests))


def _sketches(subject: Subject) -> Shown:
    found = sketches(subject.workload, subject.target)
    lines = []
    for sketch in found:
        lines.append(f"{sketch.name}: {sketch.size} combinations")
        lines += [f"  {c.name} in {', '.join(map(str, c.domain))}" for c in sketch.choices]
        lines += [f"  {wording.step_text(step)}" for step in sketch.steps]
    total = sum(sketch.size for sketch in found)
    lines.append(f"{len(found)} sketches, {total} combinations before limits")
    data = [
        {"name": s.name, "size": s.size, "choices": {c.name: list(c.domain) for c in s.choices}}
        for s in found
    ]
    return Shown("\n".join(lines), {"sketches": data})


def _schedule(subject: Subject) -> Shown:
    schedule = subject.schedule
    choices = ", ".join(f"{name}={value}" for name, value in schedule.choices.items())
    lines = (f"# {schedule.sketch} {choices}".rstrip(), *wording.schedule_lines(schedule))
    return Shown("\n".join(lines), {"schedule": schedule.to_data()})


def _triton(subject: Subject) -> Shown:
    program = subject.program
    texts = [
        f"# grid {kernel.grid}, {kernel.warps} warps, {kernel.stages} stages\n{kernel.source}"
        for kernel in program.kernels
    ]
    data = {
        "fingerprint": program.fingerprint,
        "kernels": [
            {"name": k.name, "grid": list(k.grid), "warps": k.warps, "source": k.source}
            for k in program.kernels
        ],
    }
    return Shown("\n\n".join(texts), data)


def _compiled(subject: Subject, level: str) -> Shown:
    kernels = compile_text(subject.program, subject.target.triton_target)
    for name, levels in kernels.items():
        if level not in levels:
            known = ", ".join(n for n in COMPILED if n in levels)
            raise click.UsageError(
                f"{name} has no {level} for {subject.target.name}; it has {known}"
            )
    texts = {name: levels[level] for name, levels in kernels.items()}
    return Shown("\n\n".join(texts.values()), {"kernels": texts})


_LEVELS: dict[str, Callable[[Subject], Shown]] = {
    "te": _te,
    "nest": _nest,
    "sketches": _sketches,
    "schedule": _schedule,
    "triton": _triton,
}
