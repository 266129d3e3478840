"""Tests of autosched tune on a suite under one bound: turns, what is said, kills and resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main
from measure.log import read
from measure.record import RoundRecord, RunRecord, StopRecord, SuiteRecord

ROOT = Path(__file__).parents[2]
SUITE = """
suite:
  name: three
  workloads:
    - {id: first, op: matmul, m: 64, n: 64, k: 64, dtype: float16}
    - {id: second, op: matmul, m: 32, n: 64, k: 64, dtype: float16, weight: 3}
    - {id: third, op: matmul, m: 128, n: 64, k: 64, dtype: float16}
"""
HOW = ["--device", "model", "--effort", "quick", "--strategy", "random"]
#: The first batches of each workload hold 8 trials at quick effort.
FIRST = 8


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("suite") / "three.yaml"
    path.write_text(SUITE, encoding="utf-8")
    return str(path)


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", *arguments, *HOW])


def turns(log: Path) -> list[tuple[str, int]]:
    """The turns in the order they were granted, each once: the workload and its round."""
    records = read(log).records
    keys = {r.run: r.workload.key for r in records if isinstance(r, RunRecord) and r.workload}
    rounds = [(keys[r.run], r.round) for r in records if isinstance(r, RoundRecord)]
    return list(dict.fromkeys(rounds))


def proposals(log: Path) -> list[tuple[str, int, str]]:
    return sorted((t.workload.key, t.trial, t.program) for t in read(log).trials)


@pytest.fixture(scope="module")
def shared(spec: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What was said of a suite of 30 trials in all, and its log."""
    log = tmp_path_factory.mktemp("shared") / "tuned.jsonl"
    return tune(spec, "--total-trials", "30", "-o", str(log)), log


def test_workloads_share_one_bound_and_each_is_a_run(shared: tuple[Result, Path]):
    result, log = shared
    assert result.exit_code == 0, result.stderr
    contents = read(log)
    assert contents.damage == ()
    assert len(contents.trials) == 30
    assert len([r for r in contents.records if isinstance(r, RunRecord)]) == 3
    stops = [r for r in contents.records if isinstance(r, StopRecord)]
    assert [stop.reason for stop in stops] == ["total trials"] * 3
    assert [round_ for _, round_ in turns(log)[:3]] == [0, 0, 0]
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0
    assert CliRunner().invoke(main, ["log", "check", str(log)]).exit_code == 0
    stats = CliRunner().invoke(main, ["log", "stats", str(log), "-f", "json"])
    assert len(json.loads(stats.stdout)) == 3


def test_a_table_says_how_far_each_came(shared: tuple[Result, Path]):
    result, _ = shared
    *_, heading, first, second, third, total = result.stdout.splitlines()
    assert heading.split() == [
        *("workload", "weight", "turns", "trials", "failed", "best", "us", "ratio", "state")
    ]
    assert [row.split()[:2] for row in (first, second, third)] == [
        ["first", "1"],
        ["second", "3"],
        ["third", "1"],
    ]
    assert all(row.endswith("done: total trials") for row in (first.strip(), second.strip()))
    assert total.startswith("3 workloads (3 done), 30 trials, ")
    assert total.endswith("stopped: total trials")


def test_the_screen_is_a_line_a_turn_where_nobody_watches(shared: tuple[Result, Path]):
    result, log = shared
    lines = result.stderr.splitlines()
    assert "first: matmul 64x64x64 float16 nn on a model of h200" in lines
    rounds = [line for line in lines if " round " in line]
    assert len(rounds) == len(turns(log))
    assert rounds[0].startswith("first round 0: 8 trials, best ")
    assert ", 30 of 30 trials, " in rounds[-1]


def test_the_same_command_takes_the_same_turns_and_resume_goes_on(
    spec: str, shared: tuple[Result, Path], tmp_path: Path
):
    log = tmp_path / "tuned.jsonl"
    assert tune(spec, "--total-trials", "19", "-o", str(log)).exit_code == 0
    before = log.read_bytes()
    # The scheduler is as it was, and so would the bound be.
    result = tune(spec, "--resume", "--total-trials", "30", "-o", str(log), "-f", "json")
    assert result.exit_code == 0, result.stderr
    assert log.read_bytes().startswith(before)
    assert turns(log) == turns(shared[1])
    assert proposals(log) == proposals(shared[1])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["id"], row["weight"], row["state"]) for row in rows] == [
        ("first", 1.0, "done"),
        ("second", 3.0, "done"),
        ("third", 1.0, "done"),
    ]
    assert sum(row["recorded"] for row in rows) == 19
    assert sum(row["turns"] for row in rows) == len(turns(log))
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0


def test_what_is_not_given_is_as_it_was(spec: str, shared: tuple[Result, Path], tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    log.write_bytes(shared[1].read_bytes())
    result = tune(spec, "--resume", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert len(read(log).trials) == 30
    last = [r for r in read(log).records if isinstance(r, SuiteRecord)][-1]
    assert (last.scheduler, last.total_trials) == ("gradient", 30)


def test_what_had_no_turn_is_named_and_nothing_was_found_for_it(spec: str, tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    options = ["--total-trials", "12", "--scheduler", "sequential", "-f", "json", "-o", str(log)]
    result = tune(spec, "--trials", str(FIRST), *options)
    assert result.exit_code == 3
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["trials"], row["state"], row["stopped"]) for row in rows] == [
        (8, "done", "trials"),
        (4, "done", "total trials"),
        (0, "not started", "total trials"),
    ]
    assert rows[2]["best"] is None
    assert "matmul 128x64x64 float16 nn: not started (total trials)" in result.stderr


def test_equal_workloads_are_tuned_once(tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    one = "matmul:m=64,n=64,k=64,dtype=float16"
    options = ["--total-trials", "4", "-o", str(log), "-f", "json"]
    result = tune(one, f"{one},weight=2.5", *options)
    assert result.exit_code == 0, result.stderr
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["id"], row["weight"], row["trials"]) == (one, 3.5, 4)
    assert "tuned once, weight 3.5" in result.stderr


def started(spec: str, log: Path, *options: str) -> subprocess.Popen[str]:
    arguments = ["tune", spec, *HOW, "-o", str(log), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "autosched.cli.main", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    next(line for line in process.stderr if line.startswith("second round 0"))
    return process


def test_a_killed_suite_goes_on_where_it_was(
    spec: str, shared: tuple[Result, Path], tmp_path: Path
):
    log = tmp_path / "tuned.jsonl"
    process = started(spec, log, "--total-trials", "30")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    synced = log.read_bytes()
    synced = synced[: synced.rfind(b"\n") + 1]
    assert len(read(log).trials) < 30
    result = tune(spec, "--resume", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert log.read_bytes().startswith(synced)
    assert turns(log) == turns(shared[1])
    assert proposals(log) == proposals(shared[1])


def test_an_interrupt_ranks_what_there_is_and_is_130(spec: str, tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    process = started(spec, log, "--scheduler", "round-robin", "--trials", "500")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert f"interrupted: the best so far is kept in {log}" in stderr
    assert "first: measuring the best 4 again, in turns" in stderr
    assert " partial: interrupted" in stdout
    assert read(log).damage == ()
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0


def test_a_budget_of_seconds_is_for_all_of_them(spec: str, tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    options = ["--budget-seconds", "0.001", "-o", str(log)]
    result = tune(spec, *options)
    assert result.exit_code == 3
    assert "0 trials" in result.stdout
    assert result.stderr.count("not started (budget)") == 3


def test_a_mistake_in_a_weight_is_2(tmp_path: Path):
    path = tmp_path / "bad.yaml"
    path.write_text(SUITE.replace("weight: 3", "weight: 0"), encoding="utf-8")
    result = tune(str(path), "--total-trials", "3", "-o", str(tmp_path / "tuned.jsonl"))
    assert result.exit_code == 2
    assert "bad.yaml:6:" in result.stderr
    assert "workloads.1.weight: 0 is not above 0" in result.stderr
