"""Tests of autosched bench on the model of a GPU: what it serves, prints and keeps."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main

SUITE = """\
suite:
  name: two
  workloads:
    - {id: tiny, op: matmul, m: 64, n: 64, k: 64, dtype: float16}
    - {id: wide, op: matmul, m: 64, n: 512, k: 64, dtype: float16}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def bench(suite: Path, *options: str) -> Result:
    out = ["--device", "model", "--out", str(suite.parent / "results")]
    return CliRunner().invoke(main, ["bench", str(suite), *out, *options])


def test_rows_are_data_and_notes_are_not(suite: Path):
    result = bench(suite, "-f", "json")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["workload"] for row in rows] == ["tiny", "wide"]
    assert all(row["predicted"] and row["ratio_torch"] is None for row in rows)
    assert "tiny: torch: not run: this machine has no GPU" in result.stderr


def test_results_of_several_runs_merge(suite: Path):
    first = bench(suite, "--only", "tiny")
    assert [line.split()[0] for line in first.stdout.splitlines()] == ["workload", "tiny"]
    assert bench(suite, "--only", "wide").exit_code == 0
    (path,) = (suite.parent / "results").glob("*.json")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["workload"] for row in rows] == ["tiny", "wide"]


def test_tune_fills_the_log_first(suite: Path):
    log = suite.parent / "tuned.jsonl"
    options = ["--tune", "--trials", "2", "--log", str(log), "--only", "tiny", "-f", "json"]
    result = bench(suite, *options)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["trials"] == 2
    assert "round 0: 2/2 trials" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "tinny"], "workload 'tinny' is not known, did you mean tiny"),
        (["--against", "torhc"], "baseline 'torhc' is not known, did you mean torch"),
    ],
)
def test_a_wrong_name_is_2_before_anything_runs(suite: Path, options: list[str], words: str):
    result = bench(suite, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (suite.parent / "results").exists()


def test_results_that_are_none_are_2(suite: Path):
    results = suite.parent / "results"
    results.mkdir()
    (results / "two-h200-predicted.json").write_text("[]", encoding="utf-8")
    result = bench(suite)
    assert result.exit_code == 2
    assert "no results of a benchmark" in result.stderr
