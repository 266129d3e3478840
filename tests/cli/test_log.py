"""Tests of autosched log: the best, the damage and the census of a log."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main


def log(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["log", *arguments])


def test_best_hides_predicted_records_and_says_so(tuned):
    _, path = tuned
    result = log("best", str(path), "-f", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == []
    assert "predicted records are not shown; --predicted includes them" in result.stderr


def test_best_predicted_is_marked(tuned):
    _, path = tuned
    (row,) = json.loads(log("best", str(path), "--predicted", "-f", "json").stdout)
    assert row["label"] == "matmul 64x64x64 float16 nn"
    assert row["predicted"] is True
    text = log("best", str(path), "--predicted").stdout
    assert text.splitlines()[1].rstrip().endswith("predicted")


def test_show_takes_the_best_of_a_log(tuned):
    _, path = tuned
    (row,) = json.loads(log("best", str(path), "--predicted", "-f", "json").stdout)
    spec = "matmul:m=64,n=64,k=64,dtype=float16"
    result = CliRunner().invoke(main, ["show", spec, "--log", str(path), "-f", "json"])
    assert json.loads(result.stdout)["schedule"] == row["schedule"]


def test_show_says_when_a_log_lacks_the_workload(tuned):
    _, path = tuned
    spec = "matmul:m=65,n=64,k=64,dtype=float16"
    result = CliRunner().invoke(main, ["show", spec, "--log", str(path)])
    assert result.exit_code == 3
    assert "has no valid schedule of matmul 65x64x64" in result.stderr


def test_check_of_a_sound_log_is_0(tuned):
    _, path = tuned
    result = log("check", str(path))
    assert result.exit_code == 0
    assert result.stdout.endswith("records, sound\n")


@pytest.fixture
def truncated(tuned, tmp_path: Path) -> Path:
    """The log, its last line cut short and its third, a trial, changed in one place."""
    _, path = tuned
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"trial":', b'"tryal":')
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"\n".join(lines)[:-40])
    return cut


def test_check_names_every_damaged_line_and_is_1(truncated: Path):
    result = log("check", str(truncated))
    lines = result.stdout.splitlines()
    count = len(truncated.read_bytes().split(b"\n"))
    assert result.exit_code == 1
    assert lines[0] == f"{truncated}:3: the checksum does not match"
    assert lines[1] == f"{truncated}:{count}: a torn line"
    assert lines[2].endswith("records, 2 damaged")
    found = json.loads(log("check", str(truncated), "-f", "json").stdout)
    assert [damage["line"] for damage in found["damage"]] == [3, count]


def test_readers_skip_damage_and_name_it(truncated: Path):
    result = log("stats", str(truncated), "-f", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert row["trials"] == 5
    assert row["stopped"] is None
    assert f"{truncated}:3: the checksum does not match; skipped" in result.stderr


def test_stats_counts_a_run(tuned):
    _, path = tuned
    (row,) = json.loads(log("stats", str(path), "-f", "json").stdout)
    assert row["trials"] == 6
    assert (row["device"], row["target"], row["predicted"]) == ("model", "h200", True)
    assert row["stopped"] == "trials"
    table = log("stats", str(path)).stdout.splitlines()
    assert table[0].split()[:2] == ["workload", "target"]
    assert len(table) == 2


def test_a_file_that_is_no_log(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("milk\neggs\n", encoding="utf-8")
    result = log("check", str(path))
    assert result.exit_code == 1
    assert f"{path}:1: not a line of a log" in result.stdout


def test_an_empty_log(tmp_path: Path):
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert log("check", str(path)).exit_code == 0
    assert json.loads(log("best", str(path), "-f", "json").stdout) == []
    assert json.loads(log("stats", str(path), "-f", "json").stdout) == []


@pytest.mark.parametrize("name", ["best", "check", "stats"])
def test_a_missing_log_is_2(name: str):
    result = log(name, "nowhere.jsonl")
    assert result.exit_code == 2
    assert "'nowhere.jsonl' does not exist" in result.stderr
