"""``autosched tune``: search for the best schedule of each workload, and say what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from autosched import assemble
from autosched.assemble import Wishes
from autosched.cli.earlier_files import read_all
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.cli.report import show
from autosched.cli.resume import Found, find_runs, say_found
from autosched.cli.screen import screen
from autosched.cli.sharing import Sharing, share
from autosched.machine import Machine, choose_machine, reasons
from autosched.spec import Task, load
from autosched.tune import scheduler as schedulers
from autosched.tune.options import EFFORTS
from autosched.tune.recorded import RecordedRun
from autosched.tune.result import TuningResult
from measure.crew import Crew
from measure.log import LogWriter


@dataclass(frozen=True)
class Flags:
    """What the command or the environment says of the search; None where neither does."""

    effort: str | None = None
    trials: int | None = None
    budget_s: float | None = None
    early_stopping: int | None = None
    timeout_s: float | None = None
    seed: int | None = None
    strategy: str | None = None
    cost_model: str | None = None
    total_trials: int | None = None
    prior: str | None = None

    def wishes(self, spec: Any, then: Wishes | None = None) -> Wishes:
        """Return how to search: flags first, then what the spec's file says, then defaults.

        An effort given as a flag also sets aside the bounds that the file gives. A bound on the
        trials of all workloads stands in for one on those of each. ``then`` is how a run that goes
        on was searched: its options take the place of defaults.
        """
        effort = self.effort or spec.get("effort")
        preset = EFFORTS[effort or "normal"] if effort or then is None else then.options
        file = {} if self.effort else spec
        options = replace(
            preset,
            **_given(
                trials=_first(self.trials, file.get("trials"), self.total_trials),
                budget_s=self.budget_s,
                early_stopping=_first(self.early_stopping, file.get("early_stopping")),
                seed=_first(self.seed, spec.get("seed")),
            ),
        )
        timeout_s = _first(self.timeout_s, spec.get("timeout_s"))
        then = then or Wishes(options)
        strategy, cost_model = self.strategy or then.strategy, self.cost_model or then.cost_model
        same_strategy, same_model = strategy == then.strategy, cost_model == then.cost_model
        return Wishes(
            options,
            strategy,
            cost_model,
            timeout_s,
            settings=then.settings if same_strategy else {},
            model_settings=then.model_settings if same_model else {},
            nearest=then.nearest if same_strategy else (),
            prior=self.prior or (then.prior if same_model else None),
        )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_POSITIVE = click.IntRange(min=1)
_SECONDS = click.FloatRange(min=0, min_open=True)


@click.command("tune")
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "log",
    envvar="AUTOSCHED_TUNE_OUTPUT",
    metavar="LOG",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("tuned.jsonl"),
    show_default=True,
    help="Add every attempt to this log.",
)
@click.option(
    "--device",
    metavar="auto|cuda[:N]|replay[:FILE]|model",
    default="auto",
    show_default=True,
    help="What measures; auto takes a GPU if there is one, else what was recorded on one.",
)
@click.option("--target", metavar="NAME", help="Hardware data to tune for.  [default: the GPU's]")
@click.option(
    "--trials", metavar="N", type=_POSITIVE, help="Attempts for each workload, failures included."
)
@click.option(
    "--budget-seconds",
    "budget_s",
    envvar="AUTOSCHED_TUNE_BUDGET_SECONDS",
    metavar="S",
    type=_SECONDS,
    help="Propose nothing more after this long; of several workloads, all together.",
)
@click.option(
    "--total-trials",
    metavar="N",
    type=_POSITIVE,
    help="Attempts of all workloads together, which take turns.",
)
@click.option(
    "--scheduler",
    type=click.Choice(schedulers.NAMES),
    help="How workloads take turns.  [default: gradient under one bound, else sequential]",
)
@click.option(
    "--effort", type=click.Choice(list(EFFORTS)), help="Sets what is not given.  [default: normal]"
)
@click.option(
    "--early-stopping", metavar="N", type=_POSITIVE, help="Stop after N trials without a gain."
)
@click.option(
    "--timeout",
    "timeout_s",
    envvar="AUTOSCHED_TUNE_TIMEOUT",
    metavar="S",
    type=_SECONDS,
    help="Seconds for one candidate.  [default: 10; 60 without a GPU]",
)
@click.option("--seed", metavar="N", type=click.IntRange(0, 2**31), help="[default: 0]")
@click.option("--strategy", type=click.Choice(assemble.STRATEGIES), help="[default: evolution]")
@click.option("--cost-model", type=click.Choice(assemble.COST_MODELS), help="[default: xgboost]")
@click.option(
    "--nearest",
    metavar="INPUT",
    multiple=True,
    help="Start from what did well for the nearest workloads of this log or landscape; repeatable.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with the last run of SPEC in LOG; --trials is its total."
)
@click.option(
    "--prior",
    metavar="none|shipped|FILE",
    help="What the cost model starts from.  [default: shipped, where times are measured]",
)
@with_output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    output: Output,
    specs: tuple[str, ...],
    log: Path,
    device: str,
    target: str | None,
    resume: bool,
    nearest: tuple[str, ...],
    total_trials: int | None,
    scheduler: str | None,
    **flags: Any,
) -> None:
    """Search for the best schedule of every workload of SPEC... and log every attempt.

    SPEC is a YAML file, or an operator such as matmul:m=4096,n=4096,k=4096,dtype=float16.
    Ctrl-C ends a run early and keeps what was found; --resume goes on from there.
    """
    tasks = [task for spec in specs for task in load(spec)]
    machine = choose_machine(device, target, replays=True)
    for reason in reasons(machine, tasks):
        output.say(reason)
    several = len(tasks) > 1
    sharing = Sharing(total_trials, scheduler, flags.pop("budget_s") if several else None)
    found = find_runs(output, log, tasks, machine.target) if resume else Found.nothing(tasks)
    sharing = sharing.after(found.suite)
    given = Flags(**flags, total_trials=sharing.total_trials)
    wishes = [_wishes(given, task, run) for task, run in zip(tasks, found.runs, strict=True)]
    if nearest:
        wishes = _with_nearest(output, nearest, tasks, machine, wishes, found.runs)
    if several:
        _refuse_first(tasks, machine, wishes, found.runs)
    with LogWriter(log) as writer, Crew() as crew:
        if sharing.wished:
            ctx.exit(share(output, tasks, machine, wishes, found, sharing, writer, crew))
        ctx.exit(_one_by_one(output, tasks, machine, wishes, found, writer, crew))


def _one_by_one(
    output: Output,
    tasks: Sequence[Task],
    machine: Machine,
    wishes: Sequence[Wishes],
    found: Found,
    writer: LogWriter,
    crew: Crew,
) -> ExitCode:
    """Give each workload a whole run of its own, and say how it went."""
    failed = False
    for task, wish, run in zip(tasks, wishes, found.runs, strict=True):
        if run is not None:
            say_found(output, writer.path, run, wish.options.trials)
        result = tune_one(output, task, machine, wish, writer, run, crew)
        show(output, task, machine, result, writer.path)
        if result.interrupted:
            output.say(f"interrupted: the best so far is kept in {writer.path}")
            return ExitCode.INTERRUPTED
        failed |= result.best is None
    return ExitCode.NOTHING_VALID if failed else ExitCode.DONE


def _wishes(given: Flags, task: Task, run: RecordedRun | None) -> Wishes:
    return given.wishes(task.options, assemble.wishes_of(run) if run else None)


def _with_nearest(
    output: Output,
    inputs: Sequence[str],
    tasks: Sequence[Task],
    machine: Machine,
    wishes: Sequence[Wishes],
    runs: Sequence[RecordedRun | None],
) -> list[Wishes]:
    """Have searches start from what ``inputs`` tell; a run that goes on keeps what it had."""
    known = read_all(output, inputs, machine.target).observations
    held = []
    for task, wish, run in zip(tasks, wishes, runs, strict=True):
        keys = wish.nearest if run else assemble.nearest_to(task.workload, machine.target, known)
        held.append(replace(wish, nearest=keys))
        if run is None:
            output.say(f"{task.workload.label or task.id}: {len(keys)} schedules of the nearest")
    return held


def _refuse_first(
    tasks: Sequence[Task],
    machine: Machine,
    wishes: Sequence[Wishes],
    runs: Sequence[RecordedRun | None],
) -> None:
    """Raise ResumeRefused for a later task before an earlier one is measured."""
    for task, wish, run in zip(tasks, wishes, runs, strict=True):
        if run is not None:
            assemble.check_resume(task, machine, wish, run)


def tune_one(
    output: Output,
    task: Task,
    machine: Machine,
    wishes: Wishes,
    writer: LogWriter,
    resume: RecordedRun | None = None,
    crew: Crew | None = None,
) -> TuningResult:
    """Search for one workload, or go on with the run ``resume``, with its screen."""
    with (
        assemble.open_tuner(task, machine, wishes, resume, crew) as tuner,
        screen(output, tuner.library_us()) as listener,
    ):
        return tuner.run(writer, listener)
