"""Tests of autosched tune --resume: going on, refusing, and a process that was killed."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.assemble import Wishes, wishes_of
from autosched.cli.main import main
from autosched.cli.tune_command import Flags
from autosched.tune.identity import ResumeRefused
from autosched.tune.options import EFFORTS
from autosched.tune.recorded import RecordedRun, runs
from cost_model.settings import ModelSettings
from measure.log import read

ROOT = Path(__file__).parents[2]
SMALL = "matmul:m=64,n=64,k=64,dtype=float16"
OTHER = "matmul:m=32,n=64,k=64,dtype=float16"


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", *arguments, "--device", "model"])


def schedules(log: Path) -> list[dict]:
    return [t.schedule for t in sorted(read(log).trials, key=lambda trial: trial.trial)]


@pytest.fixture
def log(tuned, tmp_path: Path) -> Path:
    """A copy of the log of a run of 6 trials."""
    path = tmp_path / "tuned.jsonl"
    path.write_bytes(tuned[1].read_bytes())
    return path


def test_a_run_goes_on_as_if_it_had_not_ended(log: Path, tmp_path: Path):
    before = log.read_bytes()
    result = tune(SMALL, "--resume", "--trials", "9", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert "9 trials, 6 of them in the log\n" in result.stderr
    assert "  resumed after 6 trials of the log\n" in result.stdout
    assert log.read_bytes().startswith(before)
    straight = tmp_path / "straight.jsonl"
    assert tune(SMALL, "--trials", "9", "-o", str(straight)).exit_code == 0
    assert schedules(log) == schedules(straight)
    assert len(schedules(log)) == 9


def test_what_is_not_given_is_as_it_was_and_no_more_is_measured(log: Path):
    count = len(read(log).trials)
    result = tune(SMALL, "--resume", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert f"{log} holds 6 trials of this run, 6 are asked for: no more\n" in result.stderr
    assert "measuring the best 6 again, in turns\n" in result.stderr
    assert len(read(log).trials) == count


def refused(log: Path, *arguments: str) -> list[str]:
    before = log.read_bytes() if log.exists() else None
    result = tune(*arguments, "--resume", "-o", str(log))
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert (log.read_bytes() if log.exists() else None) == before
    return result.stderr.splitlines()


def test_a_change_is_2_with_a_sentence_each(log: Path):
    first, *rest = refused(log, SMALL, "--seed", "3", "--effort", "quick")[-4:]
    assert first.startswith("autosched: the run ")
    assert first.endswith(" cannot go on:")
    assert rest == [
        "  seed was 0 and is 3",
        "  horizon was 320 and is 64",
        "  batch was 32 and is 16",
    ]
    *_, last = refused(log, SMALL, "--strategy", "random")
    assert last == "  strategy was evolution and is random"
    *_, last = refused(log, SMALL, "--cost-model", "analytic")
    assert last == "  cost model was xgboost and is analytic"


def test_no_run_of_the_spec_is_2_and_says_what_there_is(log: Path, tmp_path: Path):
    assert refused(log, OTHER)[-3:] == [
        f"autosched: {log}: nothing to go on with:",
        "  it holds no run of matmul 32x64x64 float16 nn for h200",
        "  its last run is of matmul 64x64x64 float16 nn for h200",
    ]
    *_, wish, _ = refused(log, SMALL, "--target", "a100")
    assert wish == "  it holds no run of matmul 64x64x64 float16 nn for a100"
    missing = tmp_path / "missing.jsonl"
    *_, last = refused(missing, SMALL)
    assert last == f"autosched: {missing}: there is no such log, and nothing to go on with"
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    *_, last = refused(empty, SMALL)
    assert last == "  it holds no run at all"


def test_several_specs_go_on_where_they_were_and_start_where_not(log: Path):
    result = tune(SMALL, OTHER, "--resume", "--trials", "6", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert f"32x64x64 float16 nn: {log} holds no run of it for h200: started\n" in result.stderr
    assert len(read(log).trials) == 12


def test_a_later_spec_is_refused_before_an_earlier_one_is_measured(log: Path):
    *_, last = refused(log, OTHER, SMALL, "--seed", "3")
    assert last == "  seed was 0 and is 3"


def test_a_killed_process_goes_on(tmp_path: Path):
    log = tmp_path / "tuned.jsonl"
    arguments = ["tune", SMALL, "--device", "model", "--trials", "24", "-o", str(log)]
    process = subprocess.Popen(
        [sys.executable, "-m", "autosched.cli.main", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    next(line for line in process.stderr if line.startswith("round 0"))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    synced = log.read_bytes()
    synced = synced[: synced.rfind(b"\n") + 1]
    count = len(read(log).trials)
    assert count >= 16
    result = CliRunner().invoke(main, [*arguments, "--resume"])
    assert result.exit_code == 0, result.stderr
    assert log.read_bytes().startswith(synced)
    assert [t.trial for t in sorted(read(log).trials, key=lambda t: t.trial)] == [*range(24)]
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0


def test_a_run_that_goes_on_takes_its_own_options_for_defaults():
    then = Wishes(EFFORTS["quick"], strategy="random", cost_model="analytic")
    assert Flags().wishes({}, then) == then
    assert Flags(trials=99).wishes({}, then).options.batch == EFFORTS["quick"].batch
    assert Flags().wishes({"seed": 4}, then).options.seed == 4
    assert Flags(effort="full").wishes({}, then).options == EFFORTS["full"]
    assert Flags(strategy="evolution").wishes({}, then).strategy == "evolution"


def test_a_run_goes_on_with_the_settings_of_its_cost_model(log: Path):
    [run] = runs(read(log).records)
    held = wishes_of(run).model_settings
    assert ModelSettings(**{**held, "dropped": tuple(held["dropped"])}) == ModelSettings()

    def changed(**settings: object) -> RecordedRun:
        search = {**run.start.identity["search"], **settings}
        identity = {**run.start.identity, "search": search}
        return replace(run, start=run.start.model_copy(update={"identity": identity}))

    assert wishes_of(changed(model_rounds=9)).model_settings["rounds"] == 9
    with pytest.raises(ResumeRefused, match="the setting rounds is a whole number"):
        wishes_of(changed(model_rounds=0))
    then = Wishes(EFFORTS["quick"], model_settings={"rounds": 9})
    assert Flags().wishes({}, then).model_settings == {"rounds": 9}
    assert Flags(cost_model="analytic").wishes({}, then).model_settings == {}
