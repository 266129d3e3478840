"""Several workloads of one command under one bound: they take turns, and are reported together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched import assemble
from autosched.assemble import Part, Wishes
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output
from autosched.cli.report import show_suite
from autosched.cli.resume import Found
from autosched.cli.suite_screen import suite_screen
from autosched.machine import Machine
from autosched.spec import Task
from autosched.tune import scheduler as schedulers
from autosched.tune.suite import Bounds, tune_suite
from autosched.tune.turns import turns_of
from measure.crew import Crew
from measure.log import LogWriter
from measure.record import SuiteRecord


@dataclass(frozen=True)
class Sharing:
    """What bounds all workloads together, and how they take turns; None where nothing says it."""

    total_trials: int | None = None
    scheduler: str | None = None
    budget_s: float | None = None

    @property
    def wished(self) -> bool:
        """Whether workloads take turns at all: by default each has a whole run of its own."""
        bounded = self.total_trials is not None or self.budget_s is not None
        return bounded or self.scheduler not in (None, schedulers.Sequential.name)

    def after(self, then: SuiteRecord | None) -> Sharing:
        """Return the same with what ``then`` says, which is gone on with, in place of nothing."""
        if then is None:
            return self
        return Sharing(
            self.total_trials or then.total_trials,
            self.scheduler or then.scheduler,
            self.budget_s or then.budget_s,
        )


def share(
    output: Output,
    tasks: Sequence[Task],
    machine: Machine,
    wishes: Sequence[Wishes],
    found: Found,
    sharing: Sharing,
    writer: LogWriter,
    crew: Crew,
) -> ExitCode:
    """Tune ``tasks`` in turns, and say what became of each and of all together."""
    parts = _merged(output, tasks, wishes, found)
    tasks = [part.task for part in parts]
    name = sharing.scheduler or schedulers.Gradient.name
    gradient = name == schedulers.Gradient.name
    settings = {"seed": parts[0].wishes.options.seed} if gradient else {}
    names = [part.resume.start.run if part.resume else None for part in parts]
    bounds = Bounds(sharing.total_trials, sharing.budget_s)
    with (
        assemble.open_suite(parts, machine, writer, crew) as members,
        suite_screen(output, [task.id for task in tasks], bounds, name) as listener,
    ):
        result = tune_suite(
            members,
            schedulers.make(name, [member.stake for member in members], settings),
            writer,
            bounds,
            recorded=turns_of(found.records, names),
            events=listener,
        )
    show_suite(output, tasks, machine, result, writer.path)
    if result.interrupted:
        output.say(f"interrupted: the best so far is kept in {writer.path}")
        return ExitCode.INTERRUPTED
    valid = all(one is not None and one.best is not None for one in result.results)
    return ExitCode.DONE if valid else ExitCode.NOTHING_VALID


def _merged(
    output: Output, tasks: Sequence[Task], wishes: Sequence[Wishes], found: Found
) -> list[Part]:
    """Return each workload once; where one is given several times, weights are added up."""
    parts: dict[str, Part] = {}
    for task, wish, run in zip(tasks, wishes, found.runs, strict=True):
        first = parts.get(task.workload.key)
        if first is None:
            parts[task.workload.key] = Part(task, wish, run)
            continue
        weight = first.task.weight + task.weight
        parts[task.workload.key] = replace(first, task=replace(first.task, weight=weight))
        output.say(
            f"{task.id} is the same workload as {first.task.id}: tuned once, weight {weight:g}"
        )
    return list(parts.values())
