"""``autosched schema``: the JSON Schema of spec files, for editors."""

from __future__ import annotations

import json

import click

from autosched.cli.output import Output, with_output
from autosched.spec import json_schema


@click.command("schema")
@with_output
def command(output: Output) -> None:
    """Print the JSON Schema of spec files, by which an editor completes and checks them."""
    output.text(json.dumps(json_schema(), indent=None if output.json else 2))
