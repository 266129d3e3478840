"""``autosched record``: measure many schedules of a workload and keep them as a landscape."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from autosched import assemble
from autosched.assemble import Wishes
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.cli.resume import find_runs, say_found
from autosched.cli.screen import screen
from autosched.landscape import form
from autosched.landscape.form import Rule
from autosched.landscape.packing import pack_run
from autosched.landscape.subspace import narrowed
from autosched.machine import Machine, choose_machine
from autosched.spec import Task, load
from autosched.tune import strategies
from autosched.tune.grid import Grid
from autosched.tune.options import Options
from autosched.tune.recorded import RecordedRun, runs
from autosched.tune.sampling import Sampling
from autosched.tune.strategy import Strategy
from measure.crew import Crew
from measure.log import LogWriter, read
from search_space.rules import sketches

#: Candidates handed over at a time, and rounds of the closing comparison of the best.
BATCH, FINALS, FINAL_ROUNDS = 64, 8, 50


def _values(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """Read ``name=1,2,4`` as choices and their values."""
    found: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        try:
            found[name] = tuple(int(value) for value in values.split(","))
        except ValueError:
            equals = ""
        if not equals or not name:
            wish = f"{text!r}: a choice and its values, such as warps=4,8"
            raise click.BadParameter(wish, ctx, parameter)
    return found


@click.command("record")
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("landscapes"),
    show_default=True,
    help="Write ID.landscape.xz of each workload here, and beside it the log of its attempts.",
)
@click.option(
    "--schedules",
    metavar="N",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Attempts for each workload, failures included.",
)
@click.option(
    "--complete",
    is_flag=True,
    help="Every legal schedule of what --sketch and --fix state, up to N.",
)
@click.option("--sketch", metavar="NAME", multiple=True, help="Only this sketch; may be repeated.")
@click.option(
    "--fix",
    metavar="CHOICE=V,...",
    multiple=True,
    callback=_values,
    help="Only these values of a choice; may be repeated.",
)
@click.option("--only", metavar="ID,...", default="", help="Only these workloads of SPEC.")
@click.option("--seed", metavar="N", type=click.IntRange(0, 2**31), default=0, show_default=True)
@click.option("--device", metavar="auto|cuda[:N]|model", default="auto", show_default=True)
@click.option("--target", metavar="NAME", help="Hardware data.  [default: the GPU's]")
@click.option(
    "--timeout",
    "timeout_s",
    envvar="AUTOSCHED_RECORD_TIMEOUT",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for one candidate.  [default: 10; 60 without a GPU]",
)
@click.option("--resume", is_flag=True, help="Go on with what the logs in DIR hold.")
@with_output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    output: Output,
    specs: tuple[str, ...],
    out: Path,
    schedules: int,
    complete: bool,
    sketch: tuple[str, ...],
    fix: Mapping[str, tuple[int, ...]],
    only: str,
    seed: int,
    device: str,
    target: str | None,
    timeout_s: float | None,
    resume: bool,
) -> None:
    """Measure many schedules of every workload of SPEC... and keep all that came of them.

    Half are drawn uniformly, half lie around the best so far; --complete goes through all of a
    stated part. Searches replay the file without a GPU: tune --device replay:FILE, experiment run.
    """
    names = {name for name in only.split(",") if name}
    tasks = [task for spec in specs for task in load(spec) if not names or task.id in names]
    if missing := names - {task.id for task in tasks}:
        raise click.UsageError(f"--only: {', '.join(sorted(missing))} is no workload of SPEC")
    machine = choose_machine(device, target)
    output.say(machine.reason)
    kind: Literal["sampled", "complete"] = "complete" if complete else "sampled"
    rule = Rule(kind=kind, seed=seed, sketches=sketch, fixed=dict(fix))
    for task in tasks:
        _strategy(task, machine, rule, schedules)  # refuses what cannot be before any is measured
    with Crew() as crew:
        for task in tasks:
            wishes = Wishes(_options(seed, schedules), timeout_s=timeout_s)
            path = out / f"{task.id}{form.SUFFIX}"
            words = _command(specs, task, rule, schedules)
            if not _record(output, task, machine, wishes, rule, path, words, resume, crew):
                ctx.exit(ExitCode.INTERRUPTED)


def _options(seed: int, schedules: int) -> Options:
    return Options(schedules, BATCH, None, None, FINALS, FINAL_ROUNDS, seed, schedules)


def _record(
    output: Output,
    task: Task,
    machine: Machine,
    wishes: Wishes,
    rule: Rule,
    path: Path,
    words: str,
    resume: bool,
    crew: Crew,
) -> bool:
    """Measure one workload and write its landscape; False if the user interrupted it."""
    log = path.with_name(path.name.removesuffix(form.SUFFIX) + ".jsonl")
    run = _run_to_resume(output, task, machine, log) if resume else None
    strategy = _strategy(task, machine, rule, wishes.options.trials)
    if run is not None:
        say_found(output, log, run, wishes.options.trials)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        LogWriter(log) as writer,
        assemble.open_tuner(task, machine, wishes, run, crew, strategy) as tuner,
        screen(output, None) as listener,
    ):
        result = tuner.run(writer, listener)
    if result.interrupted:
        output.say(f"interrupted: {log} holds what was measured; --resume goes on")
        return False
    head = _write(path, log, task, rule, words)
    held = f"{len(result.trials)} schedules, {result.stopped}"
    output.say(f"{task.id}: {held}; {path} ({path.stat().st_size} bytes)")
    if output.json:
        output.value({"id": task.id, "file": str(path), **head.model_dump(exclude={"spec"})})
    return True


def _run_to_resume(output: Output, task: Task, machine: Machine, log: Path) -> RecordedRun | None:
    if not log.exists():
        return None
    return find_runs(output, log, (task,), machine.target).runs[0]


def _strategy(task: Task, machine: Machine, rule: Rule, schedules: int) -> Strategy:
    found = narrowed(sketches(task.workload, machine.target), rule.sketches, rule.fixed)
    grids = [Grid(sketch, machine.target) for sketch in found]
    if rule.kind == "sampled":
        return Sampling(grids, rule.seed, schedules)
    return strategies.make("exhaustive", grids, machine.target, None, rule.seed, {})


def _write(path: Path, log: Path, task: Task, rule: Rule, words: str) -> form.Head:
    held = [run for run in runs(read(log).records) if run.key == task.workload.key]
    last = held[-1]
    head, lines = pack_run(
        last.start,
        [last.trials[number] for number in sorted(last.trials)],
        last.finals[-1] if last.finals else None,
        rule=rule,
        builders=os.cpu_count() or 1,
        command=words,
    )
    form.write(path, head, lines)
    return head


def _command(specs: tuple[str, ...], task: Task, rule: Rule, schedules: int) -> str:
    """Return the command that measures the same again, wherever its output goes."""
    words = ["autosched", "record", *specs, "--only", task.id, "--schedules", str(schedules)]
    words += ["--complete"] if rule.kind == "complete" else []
    words += ["--seed", str(rule.seed)] if rule.seed else []
    words += [f"--sketch={name}" for name in rule.sketches]
    words += [f"--fix={name}={','.join(map(str, held))}" for name, held in rule.fixed.items()]
    return shlex.join(words)
