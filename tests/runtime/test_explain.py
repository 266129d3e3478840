"""What would serve is told without a GPU; what a log states is made ready ahead of calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import autosched
from autosched.cli.main import main
from autosched.runtime.catalog import catalogue
from autosched.runtime.device import Setting
from autosched.runtime.tuned import Tuned
from autosched.runtime.warm import stated
from autosched.spec import SpecError, load
from measure.log import LogWriter
from measure.record import RunRecord, TrialRecord
from search_space.workload import Workload

SPEC = "matmul:m=40,n=48,k=64,dtype=float16,trans_b=true"
Make = Callable[..., TrialRecord]


def run_of(record: TrialRecord, spec: dict[str, object]) -> RunRecord:
    return RunRecord(
        run="r1",
        spec=spec,
        options={},
        device="cuda",
        target="h200",
        gpu=record.gpu,
        workload=record.workload,
        provenance=record.provenance,
    )


@pytest.fixture
def work() -> Workload:
    return load(SPEC)[0].workload


@pytest.fixture
def log(record: Make, work: Workload, tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    logged = record(work)
    with LogWriter(path) as writer:
        writer.append(run_of(logged, dict(load(SPEC)[0].spec)))
        writer.append(logged)
    return path


def test_explain_says_what_and_why(log: Path, work: Workload) -> None:
    found = autosched.explain(SPEC, log, target="h200")
    assert found.first.source == "tuned"
    assert not found.ready
    text = str(found)
    assert text.startswith("matmul 40x48x64 float16 nt\n  tuned by contraction")
    assert "best of 1 measured, 10 us on NVIDIA H200" in text
    assert autosched.explain(work, log, target="h200").to_data() == found.to_data()
    near = autosched.explain(SPEC.replace("m=40", "m=33"), log, target="h200")
    assert near.first.source == "related"
    far = autosched.explain(SPEC.replace("m=40", "m=400"), log, target="h200")
    assert far.first.source == "default"
    with pytest.raises(SpecError):
        autosched.explain("matmul:m=x", log)


def test_another_gpus_log_is_refused_with_the_reason(log: Path) -> None:
    found = autosched.explain(SPEC, log, target="a100")
    assert found.first.source == "default"
    assert "no usable record of this workload: 1 of another GPU" in found.first.reason


def test_the_command_prints_the_same(log: Path) -> None:
    told = CliRunner().invoke(main, ["explain", SPEC, "--log", str(log), "--target", "h200"])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.strip() == str(autosched.explain(SPEC, log, target="h200"))
    told = CliRunner().invoke(
        main, ["explain", SPEC, "--log", str(log), "--target", "h200", "-f", "json"]
    )
    data = json.loads(told.stdout)
    assert (data["source"], data["ready"], data["id"]) == ("tuned", False, SPEC)


def test_a_spec_that_states_another_workload_is_refused(record: Make, work: Workload) -> None:
    good = {"op": "matmul", "m": 40, "n": 48, "k": 64, "dtype": "float16", "trans_b": True}
    assert stated({work.key: good}) == {work.key: work}
    assert stated({"0" * 16: good}) == {"0" * 16: "its spec states another workload"}
    [reason] = stated({"1": {"op": "matmul", "m": "x"}}).values()
    assert str(reason).startswith("its spec states nothing: ")


def test_workloads_are_those_that_can_be_served(
    record: Make, here: Setting, work: Workload
) -> None:
    logged = record(work)
    spec = dict(load(SPEC)[0].spec)
    failed = run_of(logged, {**spec, "m": 41}).model_copy(
        update={"workload": logged.workload.model_copy(update={"key": "f" * 16})}
    )
    made = Tuned(catalogue([run_of(logged, spec), logged, failed], (), here.place), here)
    assert made.workloads() == (work,)


WARM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import autosched
tuned = autosched.load(sys.argv[1], target="h200")
first = tuned.warm()
again = tuned.warm()
print(json.dumps([
    [[w.label, w.source] for w in first], again[0].seconds < first[0].seconds, len(tuned._ready)
]))
"""


def test_what_is_warm_is_ready(log: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARM, str(log)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[["matmul 40x48x64 float16 nt", "tuned"]], True, 1]
