"""Tests of autosched tune: what it says, what it logs and how it ends."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import autosched
from autosched.assemble import Wishes
from autosched.cli.main import main
from autosched.cli.tune_command import Flags
from autosched.tune.options import EFFORTS
from measure.log import read
from measure.record import StopRecord
from search_space import steps
from search_space.schedule import Schedule

ROOT = Path(__file__).parents[2]
SMALL = "matmul:m=64,n=64,k=64,dtype=float16"


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", *arguments])


def test_the_report_ends_in_the_line_that_loads_the_log(tuned):
    result, log = tuned
    assert result.exit_code == 0, result.stderr
    last = result.stdout.splitlines()[-1].strip()
    assert last == f'import autosched; tuned = autosched.load("{log}")'
    ast.parse(last)
    loaded = autosched.load(log)
    assert "predicted" in repr(loaded)


def test_the_report_says_what_was_found(tuned):
    result, log = tuned
    lines = result.stdout.splitlines()
    assert lines[0] == "matmul 64x64x64 float16 nn, for h200"
    assert re.fullmatch(r"  best    [\d.]+ us, predicted by a model, not measured; .*", lines[1])
    assert "  ratio   the library did not run" in lines
    start = lines.index("schedule") + 1
    made = tuple(eval(line, vars(steps)) for line in lines[start:-2])  # noqa: S307
    logged = [Schedule.from_data(trial.schedule) for trial in read(log).trials]
    assert Schedule(made) in logged


def test_the_screen_is_a_line_a_round_where_nobody_watches(tuned):
    result, _ = tuned
    lines = result.stderr.splitlines()
    assert lines[0] == "times come from a model of h200, as asked"
    assert lines[1] == "matmul 64x64x64 float16 nn on a model of h200: 6 trials"
    assert re.match(r"round 0: 6/6 trials, best [\d.]+ us, ", lines[2])
    assert lines[3] == "measuring the best 6 again, in turns" or "failed" in lines[2]


def test_every_attempt_is_a_line_of_the_log(tuned):
    _, log = tuned
    contents = read(log)
    assert contents.damage == ()
    assert [trial.trial for trial in contents.trials] != []
    assert {trial.trial for trial in contents.trials} == set(range(6))
    assert all(trial.predicted for trial in contents.trials if trial.ok)
    assert isinstance(contents.records[-1], StopRecord)


def test_json_is_one_object_a_workload_and_quiet_says_nothing_else(tmp_path: Path):
    log = tmp_path / "two.jsonl"
    other = "matmul:m=32,n=64,k=64,dtype=float16"
    options = ["--device", "model", "--trials", "3", "-o", str(log), "-f", "json", "-q"]
    result = tune(SMALL, other, *options)
    assert result.exit_code == 0
    assert result.stderr == ""
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["id"] for row in rows] == [SMALL, other]
    for row in rows:
        assert row["trials"] == 3
        assert row["device"] == "model"
        assert row["best"]["predicted"] is True
        assert row["best"]["ratio"] is None
        Schedule.from_data(row["best"]["schedule"])


def test_a_search_starts_from_the_nearest_and_goes_on_with_them(tmp_path: Path):
    like_square = "matmul:m=512,n=512,k=512,dtype=float16"
    options = ["--device", "model", "-o", str(tmp_path / "tuned.jsonl")]
    result = tune(like_square, "--nearest", "square", "--trials", "1", *options)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"float16 nn: [1-9]\d* schedules of the nearest\n", result.stderr)
    log = read(tmp_path / "tuned.jsonl")
    held = log.records[0].identity["search"]["nearest_best"]
    first = log.trials[0].schedule
    assert held[0] == " ".join([first["sketch"], *map(str, first["choices"].values())])
    again = tune(like_square, "--resume", "--trials", "2", *options)
    assert again.exit_code == 0, again.stderr


def test_a_seed_repeats_its_proposals(tmp_path: Path):
    def proposals(name: str, seed: str) -> list[dict]:
        log = tmp_path / name
        options = ["--device", "model", "--trials", "4", "--seed", seed, "-o", str(log), "-q"]
        assert tune(SMALL, "--strategy", "random", *options).exit_code == 0
        trials = sorted(read(log).trials, key=lambda trial: trial.trial)
        return [trial.schedule for trial in trials]

    first = proposals("a.jsonl", "7")
    assert proposals("b.jsonl", "7") == first
    assert proposals("c.jsonl", "8") != first


def test_all_candidates_failing_is_3_with_the_census(tmp_path: Path):
    log = tmp_path / "failed.jsonl"
    options = ["--device", "model", "--trials", "3", "--timeout", "0.001", "-o", str(log)]
    result = tune(SMALL, *options)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "no valid schedule in 3 trials (3 timeout)" in result.stderr
    assert len(read(log).trials) == 3


def test_no_gpu_is_4(tmp_path: Path):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    log = tmp_path / "tuned.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "autosched.cli.main", "tune", SMALL, "--device", "cuda"],
        cwd=ROOT,
        env=environment | {"AUTOSCHED_TUNE_OUTPUT": str(log)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.startswith("autosched: device cuda: ")
    assert "Traceback" not in done.stderr
    assert not log.exists()


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing/tuned.jsonl", "missing/tuned.jsonl"), ("notes.txt", "it is not a log")],
)
def test_a_log_that_cannot_be_written_is_5(tmp_path: Path, path: str, words: str):
    (tmp_path / "notes.txt").write_text("milk, eggs\n", encoding="utf-8")
    result = tune(SMALL, "--device", "model", "--trials", "2", "-o", str(tmp_path / path))
    assert result.exit_code == 5
    assert words in result.stderr
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "milk, eggs\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "cdua"], "did you mean cuda"),
        (["--device", "cuda:x"], "known: auto, cuda, cuda:N, model"),
        (["--device", "model", "--target", "h20"], "did you mean h200"),
        (["--device", "model", "--trials", "0"], "0 is not in the range"),
        (["--device", "model", "--strategy", "evolutoin"], "'evolutoin' is not one of"),
        (["--device", "model", "--timeout", "0"], "0.0 is not in the range"),
    ],
)
def test_a_mistake_is_2_and_leaves_no_log(tmp_path: Path, options: list[str], words: str):
    log = tmp_path / "tuned.jsonl"
    result = tune(SMALL, *options, "-o", str(log))
    assert result.exit_code == 2
    assert words in result.stderr
    assert not log.exists()


def test_an_interrupt_keeps_what_there_is_and_is_130(tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    options = ["--device", "model", "--trials", "5000", "-o", str(log)]
    process = subprocess.Popen(
        [sys.executable, "-m", "autosched.cli.main", "tune", SMALL, *options],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 0"):
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"interrupted: the best so far is kept in {log}" in stderr
    assert "Traceback" not in stderr
    assert "  best " in stdout
    contents = read(log)
    assert contents.damage == ()
    assert len(contents.trials) >= 16
    last = contents.records[-1]
    assert isinstance(last, StopRecord)
    assert last.reason == "interrupted"


def test_flags_beat_the_file_and_the_file_beats_presets():
    assert Flags().wishes({}) == Wishes(EFFORTS["normal"])
    file = {"trials": 40, "seed": 3, "timeout_s": 2.5, "effort": "quick"}
    options = Flags().wishes(file).options
    assert (options.trials, options.seed, options.batch) == (40, 3, EFFORTS["quick"].batch)
    assert Flags().wishes(file).timeout_s == 2.5
    assert Flags(trials=9, timeout_s=1.0).wishes(file).options.trials == 9
    assert Flags(effort="full").wishes(file).options.trials == EFFORTS["full"].trials
    assert Flags(effort="full").wishes(file).options.seed == 3
