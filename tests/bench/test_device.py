from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from autosched.bench.device import name_of_device, open_bench, tuned_before
from autosched.bench.run import run
from autosched.te.operators import matmul
from measure.log import LogWriter
from measure.record import ResumeRecord, RunRecord, TrialRecord
from measure.service import NoDevice
from search_space import target as targets
from search_space.workload import Workload

H200 = targets.load("h200")
WORK = matmul(64, 64, 64, dtype="float16")
Make = Callable[..., TrialRecord]


@dataclass(frozen=True)
class Task:
    id: str
    workload: Workload
    tags: tuple[str, ...] = ()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_no_device_and_says_what_to_do() -> None:
    with pytest.raises(NoDevice, match="torch finds no GPU here; --device model predicts"):
        name_of_device("cuda")
    with (
        pytest.raises(NoDevice),
        open_bench("smoke", target=H200, date="d", command="c"),
    ):
        pytest.fail("it opened")


def test_unknown_devices_and_libraries_are_named() -> None:
    with pytest.raises(NoDevice, match="device 'tpu' is not known; known: cuda, cuda:N, model"):
        name_of_device("tpu")
    with (
        pytest.raises(ValueError, match="'jax' is not known; known: torch, inductor"),
        open_bench("s", target=H200, device="model", against=("jax",), date="d", command="c"),
    ):
        pytest.fail("it opened")


def test_on_the_model_device_times_are_predicted_and_marked(tmp_path: Path, record: Make) -> None:
    log = tmp_path / "tuned.jsonl"
    with LogWriter(log) as writer:
        writer.append(record(WORK))
    tasks = [Task("a", WORK), Task("b", matmul(16, 512, 512, dtype="bfloat16"))]
    with open_bench(
        "smoke", target=H200, device="model", log=log, date="2026-01-01", command="c"
    ) as bench:
        rows = list(run(bench, tasks, out=tmp_path))
    assert [row.source for row in rows] == ["tuned", "default"]
    assert all(row.predicted and row.times_us["ours"].value > 0 for row in rows)
    data = json.loads((tmp_path / "smoke-h200-predicted.json").read_text())
    assert [row["predicted"] for row in data["rows"]] == [True, True]
    assert data["rows"][0]["torch_us"] is None
    assert (
        "torch: not run: this machine has no GPU, times are predicted" in data["rows"][0]["notes"]
    )
    assert "Predicted by a model" in (tmp_path / "smoke-h200-predicted.md").read_text()


def test_earlier_tuning_is_read_off_the_log(tmp_path: Path, record: Make) -> None:
    def at(second: int, run: str) -> TrialRecord:
        made = record(WORK)
        when = made.provenance.model_copy(update={"time": f"2026-01-01T00:00:{second:02}+00:00"})
        return made.model_copy(update={"provenance": when, "run": run})

    log = tmp_path / "tuned.jsonl"
    start = RunRecord(
        run="r2",
        spec={},
        options={},
        device="cuda",
        target="h200",
        gpu="NVIDIA H200",
        provenance=at(10, "r2").provenance,
    )
    with LogWriter(log) as writer:
        for entry in (at(1, "r1"), start, at(12, "r2"), at(14, "r2")):
            writer.append(entry)
    found = tuned_before(log, WORK)
    assert found is not None
    assert (found.trials, found.tune_s, found.candidates_per_s) == (2, 4.0, 0.5)
    again = at(30, "r2").provenance
    resume = ResumeRecord(run="r2", options={}, trials=2, provenance=again)
    with LogWriter(log) as writer:
        for entry in (resume, at(31, "r2")):
            writer.append(entry)
    found = tuned_before(log, WORK)
    assert found is not None
    assert (found.trials, found.tune_s) == (3, 5.0)  # the pause before it went on is none of it
    assert tuned_before(log, matmul(1, 1, 1, dtype="float16")) is None
    assert tuned_before(None, WORK) is None
