"""``autosched export``: the kernels of a log as a folder that needs nothing of this package."""

from __future__ import annotations

from pathlib import Path

import click

from autosched.cli.output import Output, printable, with_output
from autosched.export.folder import Exported, export
from autosched.machine import choose_target
from autosched.spec import load
from measure.log import LogContents, read


@click.command("export")
@click.argument("log", metavar="LOG", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder to write.",
)
@click.option(
    "--only",
    metavar="LABEL|KEY",
    multiple=True,
    help="This workload; may be repeated.  [default: all]",
)
@click.option(
    "--spec",
    "specs",
    envvar="AUTOSCHED_EXPORT_SPEC",
    metavar="SPEC",
    multiple=True,
    help="Workloads of a log that no longer states them, as a pruned one; may be repeated.",
)
@click.option("--target", metavar="NAME", help="The GPU model to export for.  [default: the log's]")
@click.option("--replace", is_flag=True, help="Write a folder anew that holds an export.")
@with_output
def command(
    output: Output,
    log: Path,
    out: Path,
    only: tuple[str, ...],
    specs: tuple[str, ...],
    target: str | None,
    replace: bool,
) -> None:
    """Compile the best schedules of LOG ahead of time, into a folder.

    It holds binaries, a manifest, Python that needs torch alone, and a header and an example in C.
    Only what was measured and verified on the target is exported. Needs no GPU.
    """
    contents = read(log)
    for damage in contents.damage:
        output.say(f"{log}:{damage.line}: {damage.reason}; skipped")
    hardware = choose_target(target or _only_target(contents))
    made = export(
        contents,
        hardware,
        out,
        only=only,
        workloads=[task.workload for spec in specs for task in load(spec)],
        replace=replace,
        tell=lambda name: output.say(f"compiling {printable(name)}"),
    )
    for refused in made.refused:
        output.say(printable(f"left out: {refused.label or refused.key}: {refused.reason}"))
    if output.json:
        output.value(_data(made, hardware.name))
        return
    columns = ("function", "workload", "key", "kernels", "measured us", "ratio")
    rows = [
        (
            one.name,
            one.selected.workload.label,
            one.selected.workload.key,
            str(len(one.entries)),
            f"{one.selected.record.latency_us:.4g}",
            f"{one.selected.ratio[0]:.3g}" if one.selected.ratio else "",
        )
        for one in made.workloads
    ]
    output.table(columns, rows)
    output.say(f"{out}: {len(rows)} of {len(rows) + len(made.refused)}, {made.bytes} bytes")
    output.say(f'autosched_kernels.load("{out}") loads it on {" or ".join(hardware.device_names)}')


def _only_target(contents: LogContents) -> str | None:
    """Return the target that all measurements of a log are for; None where there are several."""
    found = {trial.target for trial in contents.trials if trial.ok and not trial.predicted}
    return found.pop() if len(found) == 1 else None


def _data(made: Exported, target: str) -> dict[str, object]:
    return {
        "folder": str(made.folder),
        "target": target,
        "bytes": made.bytes,
        "workloads": [
            {
                "name": one.name,
                "key": one.selected.workload.key,
                "label": one.selected.workload.label,
                "program": one.selected.program.fingerprint,
                "latency_us": one.selected.record.latency_us,
                "ratio": one.selected.ratio,
            }
            for one in made.workloads
        ],
        "refused": [{"key": r.key, "label": r.label, "reason": r.reason} for r in made.refused],
    }
