"""``autosched replay``: propose again what the runs of a log proposed, and say what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click

from autosched import assemble
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.machine import UnknownName, choose_target
from autosched.spec import SpecError, from_data
from autosched.tune.identity import ResumeRefused
from autosched.tune.recorded import RecordedRun, plain, runs
from autosched.tune.replay import Verdict
from autosched.tune.scheduler import Stake
from autosched.tune.suite import stake_of
from autosched.tune.turns import TurnsVerdict, replay_turns
from measure.log import LogContents, read
from measure.record import SuiteRecord
from measure.service import NoDevice
from search_space.rules import NoSketch


@dataclass(frozen=True)
class Row:
    """One run of a log and what came of it; ``label`` is None where its workload is not known."""

    run: str
    label: str | None
    target: str
    verdict: Verdict

    @property
    def equal(self) -> bool:
        """Was everything proposed again?"""
        return self.verdict.difference is None

    def to_data(self) -> dict[str, Any]:
        """Return the row as plain data."""
        verdict = self.verdict
        return {
            "run": self.run,
            "label": self.label,
            "target": self.target,
            "trials": verdict.trials,
            "rounds": verdict.rounds,
            "equal": self.equal,
            "difference": verdict.difference,
            "trial": verdict.trial,
            "changed": list(verdict.changed),
        }

    def lines(self) -> Iterator[str]:
        """Yield the row as lines for people."""
        verdict = self.verdict
        state = "equal" if self.equal else "different"
        rounds = f"{verdict.rounds} round{'' if verdict.rounds == 1 else 's'}"
        size = f"{verdict.trials} trials in {rounds}"
        yield f"{state}  {self.label or self.run}, for {self.target}: {size}, run {self.run}"
        if verdict.difference is not None:
            yield f"  {verdict.difference}"
        yield from (f"  changed since: {sentence}" for sentence in verdict.changed)


@click.command("replay")
@click.argument("log", metavar="LOG", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_output
@click.pass_context
def command(ctx: click.Context, /, output: Output, log: Path) -> None:
    """Propose again what every run in LOG proposed, without a GPU; exit 0 if all is equal, else 1.

    Models are trained again on the recorded outcomes. Of each run that differs the first
    difference is named.
    """
    contents = read(log)
    for damage in contents.damage:
        output.say(f"{log}:{damage.line}: {damage.reason}; skipped")
    equal = True
    rows: Iterator[Row | TurnsRow] = chain(_rows(log, contents), _turns(log, contents))
    for row in rows:
        equal &= row.equal
        if output.json:
            output.value(row.to_data())
        else:
            output.text("\n".join(row.lines()))
    ctx.exit(ExitCode.DONE if equal else ExitCode.NO)


@dataclass(frozen=True)
class TurnsRow:
    """One session in which runs took turns, and what came of choosing again."""

    verdict: TurnsVerdict

    @property
    def equal(self) -> bool:
        """Was every turn given to the same run?"""
        return self.verdict.equal

    def to_data(self) -> dict[str, Any]:
        """Return the row as plain data."""
        verdict = self.verdict
        return {
            "suite": plain(verdict.suite.run),
            "scheduler": plain(verdict.suite.scheduler),
            "runs": [plain(run) for run in verdict.suite.runs],
            "turns": verdict.turns,
            "equal": verdict.equal,
            "difference": verdict.difference and plain(verdict.difference),
        }

    def lines(self) -> Iterator[str]:
        """Yield the row as lines for people."""
        data = self.to_data()
        state = "equal" if self.equal else "different"
        turns = f"{data['turns']} turn{'' if data['turns'] == 1 else 's'}"
        yield f"{state}  {len(data['runs'])} runs by {data['scheduler']}: {turns}, {data['suite']}"
        if not self.equal:
            yield f"  {data['difference']}"


def _turns(log: Path, contents: LogContents) -> Iterator[TurnsRow]:
    if any(isinstance(record, SuiteRecord) for record in contents.records):
        stakes = {run.start.run: _stake(log, run) for run in runs(contents.records)}
        for verdict in replay_turns(contents.records, stakes):
            yield TurnsRow(verdict)


def _stake(log: Path, run: RecordedRun) -> Stake:
    try:
        task = from_data(f"{log}: run {plain(run.start.run)}", run.start.spec)
        target = choose_target(run.start.target)
    except (SpecError, UnknownName):
        return Stake()
    return stake_of(task.workload, target)


def _rows(log: Path, contents: LogContents) -> Iterator[Row]:
    held = runs(contents.records)
    for run in held:
        yield _row(log, run)
    known = {run.start.run for run in held}
    lost = (r for r in contents.records if not isinstance(r, SuiteRecord) and r.run not in known)
    for name in dict.fromkeys(r.run for r in lost):
        trials = sum(trial.run == name for trial in contents.trials)
        yield Row(plain(name), None, "-", Verdict(trials, 0, "its first line cannot be read"))


def _row(log: Path, run: RecordedRun) -> Row:
    start, label = run.start, None
    try:
        task = from_data(f"{log}: run {plain(start.run)}", start.spec)
        label = task.workload.label or task.id
        verdict = assemble.replay_run(task, run)
    except (ResumeRefused, SpecError, UnknownName, NoSketch, NoDevice) as error:
        facts = error.differences if isinstance(error, ResumeRefused) else (str(error),)
        verdict = Verdict(len(run.trials), 0, "; ".join(facts))
    return Row(plain(start.run), label, plain(start.target), verdict)
