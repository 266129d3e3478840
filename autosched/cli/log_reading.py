"""How every command reads a log that it was given."""

from __future__ import annotations

from pathlib import Path

import click

from autosched.cli.output import Output
from measure.log import Damage, LogContents, read

log_argument = click.argument(
    "log", metavar="LOG", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


def read_log(output: Output, log: Path) -> LogContents:
    """Read a log; damaged lines are named on standard error and left out."""
    contents = read(log)
    for damage in contents.damage:
        output.say(f"{place(log, damage)}; skipped")
    return contents


def place(log: Path, damage: Damage) -> str:
    """Return where a log is damaged, and how."""
    return f"{log}:{damage.line}: {damage.reason}"
