"""``autosched tune``: search for the best schedule of each workload, and say what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from autosched import assemble
from autosched.assemble import Machine, Wishes
from autosched.cli import outcome
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.cli.screen import screen
from autosched.spec import Task, load
from autosched.tune.options import EFFORTS
from autosched.tune.result import TuningResult
from measure.log import LogWriter
from measure.measurement import Failed


@dataclass(frozen=True)
class Flags:
    """What the command or the environment says of the search; None where neither does."""

    effort: str | None = None
    trials: int | None = None
    budget_s: float | None = None
    early_stopping: int | None = None
    timeout_s: float | None = None
    seed: int | None = None
    strategy: str = Wishes.strategy
    cost_model: str = Wishes.cost_model

    def wishes(self, spec: Any) -> Wishes:
        """Return how to search: flags first, then what the spec's file says, then defaults.

        An effort given as a flag also sets aside the bounds that the file gives.
        """
        preset = EFFORTS[self.effort or spec.get("effort", "normal")]
        file = {} if self.effort else spec
        options = replace(
            preset,
            **_given(
                trials=_first(self.trials, file.get("trials")),
                budget_s=self.budget_s,
                early_stopping=_first(self.early_stopping, file.get("early_stopping")),
                seed=_first(self.seed, spec.get("seed")),
            ),
        )
        timeout_s = _first(self.timeout_s, spec.get("timeout_s"))
        return Wishes(options, self.strategy, self.cost_model, timeout_s)


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
    metavar="auto|cuda[:N]|model",
    default="auto",
    show_default=True,
    help="What measures; auto takes a GPU if there is one.",
)
@click.option("--target", metavar="NAME", help="Hardware data to tune for.  [default: the GPU's]")
@click.option("--trials", metavar="N", type=_POSITIVE, help="Attempts, failures included.")
@click.option(
    "--budget-seconds",
    "budget_s",
    envvar="AUTOSCHED_TUNE_BUDGET_SECONDS",
    metavar="S",
    type=_SECONDS,
    help="Propose nothing more after this long.",
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
@click.option(
    "--strategy", type=click.Choice(assemble.STRATEGIES), default=Wishes.strategy, show_default=True
)
@click.option(
    "--cost-model", type=click.Choice(assemble.COST_MODELS), default="xgboost", show_default=True
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
    **flags: Any,
) -> None:
    """Search for the best schedule of every workload of SPEC... and log every attempt.

    SPEC is a YAML file, or an operator such as matmul:m=4096,n=4096,k=4096,dtype=float16.
    Ctrl-C ends a run early and keeps what was found.
    """
    tasks = [task for spec in specs for task in load(spec)]
    machine = assemble.choose_machine(device, target)
    output.say(machine.reason)
    failed = False
    with LogWriter(log) as writer:
        for task in tasks:
            result = tune_one(output, task, machine, Flags(**flags).wishes(task.options), writer)
            show(output, task, machine, result, log)
            if result.interrupted:
                output.say(f"interrupted: the best so far is kept in {log}")
                ctx.exit(ExitCode.INTERRUPTED)
            failed |= result.best is None
    ctx.exit(ExitCode.NOTHING_VALID if failed else ExitCode.DONE)


def tune_one(
    output: Output, task: Task, machine: Machine, wishes: Wishes, writer: LogWriter
) -> TuningResult:
    """Search for one workload, with its screen."""
    with (
        assemble.open_tuner(task, machine, wishes) as tuner,
        screen(output, tuner.library_us()) as listener,
    ):
        return tuner.run(writer, listener)


def show(output: Output, task: Task, machine: Machine, result: TuningResult, log: Path) -> None:
    """Say what a run found; why nothing was found is no data."""
    if output.json:
        output.value(outcome.data(task, machine, result, log))
    elif result.best is not None:
        output.text("\n".join(outcome.lines(machine, result, result.best, log)))
    if result.best is None:
        click.echo(f"autosched: {_nothing(task, result)}", err=True)


def _nothing(task: Task, result: TuningResult) -> str:
    label = task.workload.label or task.id
    failures = [t.measurement for t in result.trials if isinstance(t.measurement, Failed)]
    if not failures:
        return f"{label}: no schedule was tried ({result.stopped})"
    counts = Counter(f"{failure.kind}: {failure.detail}" for failure in failures)
    (commonest, count), *_ = counts.most_common(1)
    return (
        f"{label}: no valid schedule in {len(result.trials)} trials "
        f"({outcome.census(result)}); {count} times: {commonest}"
    )
