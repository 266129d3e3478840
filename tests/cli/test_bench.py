"""Tests of autosched bench on the model of a GPU: what it serves, prints and keeps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main
from autosched.tune.options import EFFORTS
from measure.log import read

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


def test_quick_effort_has_a_new_log_and_a_trace_in_the_row(
    suite: Path, monkeypatch: pytest.MonkeyPatch
):
    quick = replace(EFFORTS["quick"], trials=3)
    monkeypatch.setitem(EFFORTS, "quick", quick)
    log, logs = suite.parent / "tuned.jsonl", suite.parent / "results" / "two-h200-quick"
    options = ["--tune", "--trials", "2", "--log", str(log), "--only", "tiny", "-f", "json"]
    for _ in range(2):
        result = bench(suite, *options, "--also-quick")
        assert result.exit_code == 0, result.stderr
        row = json.loads(result.stdout)
        assert (row["trials"], row["quick_trials"]) == (2, 3)
        assert row["quick_s"] > 0
        assert row["quick_share"] == 1.0  # on the model both are served by the same default
        (path,) = logs.glob("*.jsonl")
        assert path.stem == row["key"]
        assert sorted(trial.trial for trial in read(path).trials) == [0, 1, 2]
    assert len(read(log).trials) == 4
    table = bench(suite, "--only", "tiny", "--also-quick")
    assert "ours / quick ratio" in table.stdout


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
