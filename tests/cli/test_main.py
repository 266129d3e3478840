"""Tests of the group: which exit code and which words a command comes to."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from autosched.cli import schema_command
from autosched.cli.main import COMMANDS, main
from autosched.cli.output import Output

ROOT = Path(__file__).parents[2]
SPEC = "matmul:m=512,n=512,k=512,dtype=float16"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def schema_raises(monkeypatch: pytest.MonkeyPatch):
    """Make the command ``schema`` end in an exception."""

    def arrange(error: BaseException) -> None:
        def broken() -> dict[str, object]:
            raise error

        monkeypatch.setattr(schema_command, "json_schema", broken)

    return arrange


def test_help_names_every_command():
    text = run("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


def options_of(command: click.Command) -> set[str]:
    """The longest spelling of every option of a command and its subcommands."""
    below = [command]
    if isinstance(command, click.Group):
        below = [command.commands[name] for name in command.commands]
    found = [p for c in below for p in c.params if isinstance(p, click.Option)]
    return {max(option.opts, key=len) for option in found}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_every_option(name: str):
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^### `{name}\b.*?(?=^##)", page, flags=re.DOTALL | re.MULTILINE)
    command = main.get_command(click.Context(main), name)
    assert command is not None
    common = {"--format", "--quiet", "--verbose"}
    assert [o for o in options_of(command) - common if f"`{o}" not in section] == []


def test_version():
    assert run("--version").stdout == "autosched, version 0.1.0\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Usage: autosched" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shw", SPEC], "Did you mean 'show'?"),
        (["show", SPEC, "--levle", "te"], "(Did you mean"),
        (["show", SPEC, "--level", "tee"], "'tee' is not one of 'te', 'nest'"),
        (["show", SPEC, "-q", "-v"], "-q and -v contradict each other"),
        (["show"], "Missing argument 'SPEC'"),
        (["show", SPEC, "--schedule", "nowhere.json"], "'nowhere.json' does not exist"),
        (["schema", "-f", "xml"], "'xml' is not one of 'table', 'json'"),
    ],
)
def test_a_mistake_in_the_command(arguments: list[str], words: str):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("matmul:m=0,n=512,k=512,dtype=float16", "argument:"),
        ("matmul:m=512,n=512,k=512,dtype=float61", "float16"),
        ("matmul:m=512,n=512,kk=512,dtype=float16", "did you mean k"),
        ("nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_a_mistake_in_a_spec(spec: str, words: str):
    result = run("show", spec)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("autosched: ")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_misspelt_key_is_placed_by_line_and_column(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text("workload:\n  op: matmul\n  m: 8\n  n: 8\n  k: 8\n  dtpye: float16\n")
    result = run("show", str(path))
    assert result.exit_code == 2
    assert f"{path}:6:3: workload.dtpye" in result.stderr
    assert "did you mean dtype" in result.stderr


def test_a_fault_of_ours_asks_for_a_report_without_a_trace(schema_raises):
    schema_raises(RuntimeError("wires crossed"))
    result = run("schema")
    assert result.exit_code == 70
    assert result.stderr == (
        "autosched: a fault of ours: RuntimeError: wires crossed\n"
        "Whatever was logged is kept. "
        "Please report it, with what -v and 'autosched doctor' print.\n"
    )


def test_verbose_shows_the_trace_of_a_fault(schema_raises):
    schema_raises(RuntimeError("wires crossed"))
    result = run("schema", "-v")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_storage_names_the_path_and_the_error(schema_raises, number: int):
    schema_raises(OSError(number, "no", "/full/tuned.jsonl"))
    result = run("schema")
    assert result.exit_code == 5
    assert result.stderr == f"autosched: /full/tuned.jsonl: no ({errno.errorcode[number]})\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_130(schema_raises, error: BaseException):
    schema_raises(error)
    result = run("schema")
    assert result.exit_code == 130
    assert result.stderr.strip() == "autosched: interrupted"


def test_the_environment_sets_options_and_flags_beat_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOSCHED_SHOW_LEVEL", "te")
    assert run("show", SPEC).stdout.startswith("expr: ")
    assert run("show", SPEC, "--level", "nest").stdout.startswith("nest kernel\n")


def test_a_reader_that_leaves_early_is_no_error():
    command = f"'{sys.executable}' -m autosched.cli.main show {SPEC} --level sketches | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_rows_are_never_folded_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    long = "x" * 300
    Output("table", quiet=False, verbose=False).table(["name", "best us"], [[long, "1"]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "best", "us"], [long, "1"]]
