"""autosched tune on recorded outcomes, as far as a log that is proposed again and loaded."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import autosched
from autosched import landscape
from autosched.cli.main import main
from autosched.landscape import form
from autosched.landscape.synthetic import synthetic
from autosched.machine import choose_machine
from measure.log import read
from measure.measurement import Timed

SQUARE = "matmul:m=1024,n=1024,k=1024,dtype=float16"
SPEC = {"op": "matmul", "m": 64, "n": 64, "k": 64, "dtype": "float16"}


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", *arguments])


@pytest.mark.parametrize("device", ["auto", "replay", "replay:square"])
def test_a_shipped_landscape_serves_where_there_is_no_gpu(
    tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_machine, "__defaults__", (lambda: (),))
    log = tmp_path / "tuned.jsonl"
    result = tune(SQUARE, "--device", device, "--trials", "16", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    assert "2000 outcomes recorded on NVIDIA H200" in result.stderr
    assert "times were recorded on NVIDIA H200, none was taken now" in result.stdout
    known = landscape.load("square")
    contents = read(log)
    assert len(contents.trials) == 16
    for trial in contents.trials:
        key = (trial.schedule["sketch"], tuple(trial.schedule["choices"].values()))
        assert trial.measured() == known.outcome(key)
        assert not trial.predicted
        assert trial.rendering_version == known.head.rendering_version
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0
    assert "16 usable" in autosched.load(log).summary()


def test_a_run_on_a_landscape_goes_on(tmp_path: Path) -> None:
    log, straight = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    common = ("--device", "replay", "--strategy", "random")
    assert tune(SQUARE, *common, "--trials", "8", "-o", str(log)).exit_code == 0
    more = tune(SQUARE, *common, "--trials", "12", "--resume", "-o", str(log))
    assert more.exit_code == 0, more.stderr
    assert tune(SQUARE, *common, "--trials", "12", "-o", str(straight)).exit_code == 0
    a, b = ([t.schedule for t in read(p).trials] for p in (log, straight))
    assert a == b


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.landscape.xz"
    form.write(path, *synthetic(SPEC, 30))
    return path


def test_predicted_outcomes_stay_predicted(own: Path, tmp_path: Path) -> None:
    log = tmp_path / "tuned.jsonl"
    spec = "matmul:m=64,n=64,k=64,dtype=float16"
    result = tune(spec, "--device", f"replay:{own}", "--trials", "40", "-o", str(log))
    assert result.exit_code == 0, result.stderr
    trials = read(log).trials
    assert len(trials) == 30  # all there are
    assert all(t.predicted for t in trials if isinstance(t.measured(), Timed))
    assert "0 usable" in autosched.load(log).summary()


def test_what_is_not_recorded_is_refused(own: Path, tmp_path: Path) -> None:
    log = str(tmp_path / "tuned.jsonl")
    damaged = tmp_path / "damaged.landscape.xz"
    damaged.write_bytes(own.read_bytes()[:-9])
    other = "matmul:m=32,n=64,k=64,dtype=float16"
    cases = (
        (other, "replay", 4, "no landscape of matmul 32x64x64 float16 nn is shipped; there are"),
        (other, f"replay:{own}", 4, "it is of matmul 64x64x64 float16 nn, not of matmul 32x64x64"),
        (SQUARE, "replay:squar", 2, "no such file, and none of"),
        (SQUARE, f"replay:{damaged}", 2, "cut short"),
        (SQUARE, "replai", 2, "did you mean replay"),
    )
    for spec, device, code, sentence in cases:
        result = tune(spec, "--device", device, "-o", log)
        assert (result.exit_code, sentence in result.stderr) == (code, True), result.stderr
    refused = tune(SQUARE, "--device", "replay:square", "--target", "a100", "-o", log)
    assert refused.exit_code == 4
    assert "it was recorded on h200, not a100" in refused.stderr
    assert not Path(log).exists()
