"""What is missed may be tuned behind the caller's back, on request, and serves from then on."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import autosched
from autosched.background import TuningFailed
from autosched.runtime.background import Background
from autosched.runtime.catalog import load_catalog
from autosched.runtime.device import Setting
from autosched.runtime.tuned import Tuned
from autosched.te.operators import matmul
from measure.log import LogWriter, read
from measure.record import TrialRecord
from search_space.workload import Workload

WORK = matmul(64, 64, 64, dtype="float16")
OTHER = matmul(64, 96, 64, dtype="float16")
CPU = torch.device("cpu")
Make = Callable[..., TrialRecord]
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@no_gpu
def test_a_miss_is_handed_over_once_and_served_when_it_is_tuned(
    record: Make, here: Setting, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    seen: list[Workload] = []
    go = threading.Event()

    def tuner(workload: Workload) -> None:
        seen.append(workload)
        assert go.wait(60)
        with LogWriter(path) as log:
            log.append(record(workload))

    def again() -> object:
        return load_catalog(path, here.place)

    made = Tuned(again(), here, on_miss="tune", tuner=tuner, again=again)  # type: ignore[arg-type]
    a, b = torch.randn(2, 64, 64, dtype=torch.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):  # the tuner is still at it
            assert torch.equal(made._run(WORK, {"a": a, "b": b}, None, CPU).output, a @ b)
    assert made.lookup(WORK).source == "library"
    go.set()
    assert made._background
    assert made._background.wait(60)
    assert seen == [WORK]
    assert made.lookup(WORK).source == "tuned"
    assert torch.equal(made._run(WORK, {"a": a, "b": b}, None, CPU).output, a @ b)
    assert made._background.wait(60)
    assert seen == [WORK]  # a record that does not run here is no reason to tune again


def test_what_a_tuner_raises_costs_its_turn_alone(caplog: pytest.LogCaptureFixture) -> None:
    done: list[Workload] = []

    def tuner(workload: Workload) -> None:
        if workload is WORK:
            raise SystemExit("a tuner that ends the process")

    background = Background(tuner, done.append)
    for workload in (WORK, OTHER, WORK):
        background.ask(workload)
    assert background.wait(60)
    assert done == [OTHER]
    [said] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert (
        said
        == f"tuning {WORK.label} in the background failed: SystemExit: a tuner that ends"
        + (" the process")
    )


def test_the_policy_and_a_tuner_go_together(here: Setting, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    for options in ({"on_miss": "tune"}, {"tuner": print}):
        with pytest.raises(ValueError, match="on_miss='tune' and a tuner go together"):
            autosched.load(path, **options)  # type: ignore[arg-type]


def test_the_tuner_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    more = ("--target", "h200", "--strategy", "random", "--cost-model", "random")
    tuner = autosched.background_tuner(log=path, trials=3, device="model", options=more)
    tuner(WORK)
    trials = [r for r in read(path).records if isinstance(r, TrialRecord)]
    assert len(trials) == 3
    assert {trial.workload.key for trial in trials} == {WORK.key}
    assert all(trial.predicted for trial in trials if trial.ok)
    assert autosched.load(path, target="h200").lookup(WORK).source != "tuned"
    with pytest.raises(TuningFailed, match=r"ended with 2: .*abacus"):
        autosched.background_tuner(log=path, device="abacus")(WORK)
