"""Finds the runs of a log that tasks go on with, and says what was found. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.cli.output import Output
from autosched.spec import Task
from autosched.tune.identity import ResumeRefused
from autosched.tune.recorded import RecordedRun, last_run, plain, runs
from measure.log import read
from measure.record import AnyRecord, SuiteRecord
from search_space.target import Target


@dataclass(frozen=True)
class Found:
    """For each task the run to go on with, and all that the log holds."""

    runs: tuple[RecordedRun | None, ...]
    records: tuple[AnyRecord, ...] = ()

    @staticmethod
    def nothing(tasks: Sequence[Task]) -> Found:
        """Return what is found where nothing is looked for."""
        return Found((None,) * len(tasks))

    @property
    def suite(self) -> SuiteRecord | None:
        """How several of the runs last took turns, if they did."""
        names = {run.start.run for run in self.runs if run is not None}
        suites = [r for r in self.records if isinstance(r, SuiteRecord) and names & {*r.runs}]
        return suites[-1] if suites and len(self.runs) > 1 else None


def find_runs(output: Output, log: Path, tasks: Sequence[Task], target: Target) -> Found:
    """Return for each task the last run in ``log`` of its workload, for ``target``.

    Tasks without one are started, if another has one: several tasks are one wish, and it was
    interrupted before them. Raises ResumeRefused where none has, StorageError.
    """
    if not log.exists():
        raise ResumeRefused(f"{log}: there is no such log, and nothing to go on with", ())
    contents = read(log)
    for damage in contents.damage:
        output.say(f"{log}:{damage.line}: {damage.reason}; skipped")
    held = runs(contents.records)
    found = tuple(last_run(held, task.workload.key, target.name) for task in tasks)
    if not any(found):
        raise ResumeRefused(f"{log}: nothing to go on with:", _missing(tasks, held, target))
    for task, run in zip(tasks, found, strict=True):
        if run is None:
            output.say(f"{_label(task)}: {log} holds no run of it for {target.name}: started")
    return Found(found, contents.records)


def say_found(output: Output, log: Path, run: RecordedRun, trials: int) -> None:
    """Say how much of a run there is already, where that is all that was asked for."""
    count = len(run.trials)
    if count >= trials:
        output.say(f"{log} holds {count} trials of this run, {trials} are asked for: no more")


def _missing(tasks: Sequence[Task], held: Sequence[RecordedRun], target: Target) -> tuple[str, ...]:
    wished = tuple(f"it holds no run of {_label(task)} for {target.name}" for task in tasks)
    if not held:
        return (*wished, "it holds no run at all")
    last = held[-1].start
    label = plain(last.workload.label) if last.workload else "a workload that it does not name"
    return (*wished, f"its last run is of {label} for {plain(last.target)}")


def _label(task: Task) -> str:
    return task.workload.label or task.id
