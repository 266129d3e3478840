"""``autosched schema``: the JSON Schema of spec and experiment files, for editors."""

from __future__ import annotations

import json

import click

from autosched.cli.output import Output, with_output
from autosched.spec import json_schema


@click.command("schema")
@click.argument("of", type=click.Choice(["spec", "experiment"]), default="spec")
@with_output
def command(output: Output, of: str) -> None:
    """Print the JSON Schema of spec or experiment files, by which an editor completes and checks
    them."""
    output.text(json.dumps(_schema(of), indent=None if output.json else 2))


def _schema(of: str) -> object:
    if of == "spec":
        return json_schema()
    # Imported where wanted: it brings what experiments need.
    from autosched.experiment import schema

    return schema.json_schema()
