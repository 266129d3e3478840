"""``autosched prior``: learn from earlier logs and landscapes what others start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from autosched.cli.earlier_files import read_all
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.machine import choose_target


@click.group("prior")
def command() -> None:
    """Learn from measurements of other workloads, so that a search need not start from nothing."""


@command.command("build")
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write the prior here.",
)
@click.option("--target", metavar="NAME", default="h200", show_default=True)
@click.option(
    "--without", metavar="KEY", multiple=True, help="Leave this workload out; may be repeated."
)
@with_output
@click.pass_context
def build(
    ctx: click.Context,
    /,
    output: Output,
    inputs: tuple[str, ...],
    out: Path,
    target: str,
    without: tuple[str, ...],
) -> None:
    """Learn a prior from INPUT...: logs, landscape files, or names of shipped landscapes.

    The same inputs give the same file. What was measured of a schedule that is no longer in the
    search space is left out, and so are made-up times.
    """
    from cost_model import prior
    from cost_model.dataset import build as gathered

    chosen = choose_target(target)
    found = read_all(output, inputs, chosen)
    kept = [one for one in found.observations if one.sketch.workload.key not in without]
    made = prior.build(gathered(kept, chosen), chosen.name, threads=os.cpu_count() or 1)
    data = prior.to_bytes(made)
    out.write_bytes(data)
    workloads = len(set(made.dataset.workloads))
    if output.json:
        output.value(
            {
                "file": str(out),
                "digest": made.digest,
                "target": made.target,
                "rows": len(made.dataset),
                "workloads": workloads,
                "left_out": found.left_out,
            }
        )
    else:
        output.text(
            f"{out}: {len(made.dataset)} measurements of {workloads} workloads on {made.target}, "
            f"{len(data) / 1024:.0f} KiB, digest {made.digest}; {found.left_out} left out"
        )
    ctx.exit(ExitCode.DONE)
