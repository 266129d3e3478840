"""``autosched explain``: what a log would serve for a workload, and why."""

from __future__ import annotations

from pathlib import Path

import click

from autosched.cli.output import Output, printable, with_output
from autosched.machine import choose_target
from autosched.runtime.loading import load as load_log
from autosched.spec import load


@click.command("explain")
@click.argument("spec")
@click.option(
    "--log",
    metavar="LOG",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Look in this log.",
)
@click.option("--target", metavar="NAME", help="For this GPU model.  [default: the GPU's, or h200]")
@click.option(
    "--prefer",
    type=click.Choice(["best-of", "tuned"]),
    default="best-of",
    show_default=True,
    help="Whether torch serves where it was measured as faster.",
)
@with_output
def command(output: Output, spec: str, log: Path, target: str | None, prefer: str) -> None:
    """Say what would serve each workload of SPEC from LOG, why, and what would come next.

    Needs no GPU: without one it answers for the GPU model of --target.
    """
    hardware = choose_target(target)
    tuned = load_log(log, target=hardware, on_miss="serve", prefer=prefer)  # type: ignore[arg-type]
    for task in load(spec):
        found = tuned.explain(task.workload)
        if output.json:
            output.value({"id": task.id, **found.to_data()})
        else:
            output.text("\n".join(map(printable, str(found).splitlines())))
