"""With -f json standard output is JSON alone, and its fields are those that docs/cli.md names."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autosched.cli.main import main

ROOT = Path(__file__).parents[2]
SMALL = "matmul:m=64,n=64,k=64,dtype=float16"
#: Commands whose answers are short to come by; LOG stands for a log of one small run.
COMMANDS = (
    f"show {SMALL} --level schedule",
    f"show {SMALL} --level triton",
    "log best LOG",
    "log best LOG --predicted",
    "log check LOG",
    "log stats LOG",
    "replay LOG",
    "schema",
    "doctor",
)


def answers(*arguments: str, exit_code: int = 0) -> list[Any]:
    """Every line of standard output as JSON; whatever else stands there fails."""
    result = CliRunner().invoke(main, [*arguments, "-f", "json"])
    assert result.exit_code == exit_code, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def documented(command: str) -> set[str]:
    """The names in the paragraph of docs/cli.md that says what a command prints as JSON."""
    section = (ROOT / "docs/cli.md").read_text("utf-8").split("## As JSON")[1]
    (line,) = re.findall(rf"^- `{command}`: .*$", section, re.MULTILINE)
    return set(re.findall(r"`([a-z0-9_]+)`", line))


@pytest.mark.parametrize("command", COMMANDS)
def test_one_value_is_printed_and_nothing_else(tuned: tuple[Any, Path], command: str):
    _, log = tuned
    assert len(answers(*command.replace("LOG", str(log)).split())) == 1


def test_a_run_has_the_fields_that_are_documented(tmp_path: Path):
    options = ["--device", "model", "--trials", "3", "-o", str(tmp_path / "tuned.jsonl")]
    (row,) = answers("tune", SMALL, *options)
    assert {"tune", *row, *row["best"]} == documented("tune")


def test_a_row_has_the_fields_that_are_documented(tmp_path: Path):
    (row,) = answers("bench", SMALL, "--device", "model", "--out", str(tmp_path))
    for_each = {name for name in row if "torch" in name or name.endswith(("_low", "_high"))}
    assert {*row} - for_each <= documented("bench")


def test_where_nothing_is_valid_the_best_is_null_and_failures_are_counted(tmp_path: Path):
    options = ["--device", "model", "--trials", "2", "--timeout", "0.001"]
    options += ["-o", str(tmp_path / "tuned.jsonl")]
    (row,) = answers("tune", SMALL, *options, exit_code=3)
    assert row["best"] is None
    assert row["failures"] == {"timeout": 2}
    assert row["trials"] == 2
