"""Where a command's words go: data to standard output, all else to standard error.

Knows nothing of what is said.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

import click
from rich.console import Console
from rich.table import Table

Format = Literal["table", "json"]

#: Wide enough that no row of a table is ever folded where nobody looks at it.
UNFOLDED_COLUMNS = 4096


@dataclass(frozen=True)
class Output:
    """The reader's wishes: the form of the data, and how much is said beside it."""

    format: Format
    quiet: bool
    verbose: bool

    @property
    def json(self) -> bool:
        """Is the data wanted as JSON?"""
        return self.format == "json"

    def say(self, text: str) -> None:
        """Tell a person something that is not data, unless told to be quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def text(self, text: str) -> None:
        """Write data that is text."""
        click.echo(text)

    def value(self, value: object) -> None:
        """Write one JSON value on a line of its own."""
        click.echo(json.dumps(value, allow_nan=False))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows under headings; columns whose heading ends in a unit align right."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if _is_number(column) else "left")
        for row in rows:
            table.add_row(*map(printable, row))
        console(sys.stdout).print(table)


def printable(text: str) -> str:
    """Escape what a terminal would obey instead of showing it: a log may hold any text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console(stream: IO[str]) -> Console:
    """Return a console on ``stream`` that adds no colours of its own to plain text."""
    width = None if stream.isatty() else UNFOLDED_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False)


def _is_number(column: str) -> bool:
    return column.endswith((" us", "/s", "trials", "failed", "ratio", "size"))


def with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``-f``, ``-q`` and ``-v``; it gets an Output as its first argument."""

    @click.option(
        "-f",
        "--format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Form of the data on standard output.",
    )
    @click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more; show the trace of a fault.")
    @functools.wraps(function)
    def command(*args: Any, format: Format, quiet: bool, verbose: bool, **options: Any) -> Any:
        if quiet and verbose:
            raise click.UsageError("-q and -v contradict each other")
        logging.getLogger("autosched").setLevel(logging.INFO if verbose else logging.WARNING)
        return function(Output(format, quiet, verbose), *args, **options)

    return command


def verbose_wished(arguments: Sequence[str]) -> bool:
    """Is ``-v`` among raw arguments, wherever it stands?"""
    return any(argument in ("-v", "--verbose") for argument in arguments)
