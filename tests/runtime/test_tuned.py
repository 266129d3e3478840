from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import autosched
from autosched.runtime.catalog import catalogue
from autosched.runtime.device import Setting
from autosched.runtime.engine import LibraryEngine, engine_of
from autosched.runtime.errors import (
    Miss,
    MissWarning,
    NeedsGradient,
    NoLog,
    WrongDevice,
    WrongDtype,
    WrongShape,
)
from autosched.runtime.served import Served
from autosched.runtime.tuned import Tuned
from autosched.te.operators import matmul
from measure import interpret
from measure.log import LogWriter
from measure.measurement import Evidence
from measure.record import TrialRecord

WORK = matmul(64, 64, 64, dtype="float16")
CPU = torch.device("cpu")
Make = Callable[..., TrialRecord]
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def tuned(here: Setting, *records: TrialRecord, **options: object) -> Tuned:
    return Tuned(catalogue(records, (), here.place), here, source="tuned.jsonl", **options)  # type: ignore[arg-type]


def write(path: Path, *records: TrialRecord) -> None:
    with LogWriter(path) as log:
        for record in records:
            log.append(record)


def test_a_log_is_loaded_by_name_of_target(record: Make, tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    logged = record(WORK, 9.25)
    write(path, logged)
    loaded = autosched.load(path, target="h200")
    if not torch.cuda.is_available() or torch.cuda.get_device_name() == "NVIDIA H200":
        assert loaded.lookup(WORK).fingerprint == logged.program
    assert autosched.load(path, target="a100").lookup(WORK).source != "tuned"


def test_mistakes_in_loading_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match=r"nothing\.jsonl: there is no such log"):
        autosched.load(tmp_path / "nothing.jsonl")
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(KeyError, match="target 'h2000' is not known; known: a100, h200"):
        autosched.load(tmp_path / "log.jsonl", target="h2000")
    with pytest.raises(ValueError, match="on_miss='shout' is not known; known: serve, warn"):
        autosched.load(tmp_path / "log.jsonl", on_miss="shout")  # type: ignore[arg-type]


def test_a_file_that_is_no_log_serves_nothing_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "noise.jsonl"
    path.write_bytes(b"\x00\xff not a log\n{}\n")
    loaded = autosched.load(path)
    assert "0 workloads served" in repr(loaded)
    assert "2 damaged" in repr(loaded)
    assert "line 1 is damaged" in loaded.summary()
    assert loaded.lookup(WORK).source != "tuned"


def test_the_summary_counts_what_is_not_served(record: Make, here: Setting) -> None:
    good = record(WORK, 9.25)
    predicted = good.measurement.model_copy(update={"predicted": True})
    made = tuned(here, good, record(WORK, measurement=predicted), record(WORK, gpu="another"))
    assert made.summary().splitlines() == [
        "tuned.jsonl: 1 workload served on NVIDIA H200",
        "3 trials, 0 failed, 1 usable",
        "1 not served: predicted, not measured",
        "1 not served: of another GPU",
        f"  {WORK.label}: 9.25 us by {good.schedule['sketch']}",
    ]
    assert repr(made) == (
        "<Tuned 'tuned.jsonl': 1 workload served, 1 predicted, not measured, 1 of another GPU>"
    )


@no_gpu
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter is on")
def test_wrong_inputs_are_refused_before_anything_else(here: Setting) -> None:
    made = tuned(here)
    a = torch.zeros(4, 8, dtype=torch.float16)
    with pytest.raises(WrongDevice, match="a is on cpu; served kernels need a GPU"):
        made.matmul(a, a)
    with pytest.raises(WrongDtype, match="b is a list, not a torch tensor"):
        made.matmul(a, [1.0])  # type: ignore[arg-type]
    with pytest.raises(WrongShape, match="the workload takes 2 inputs, not 1"):
        made.compute(WORK, a)


@no_gpu
def test_what_does_not_run_falls_through_to_torch_with_one_warning(
    record: Make, here: Setting
) -> None:
    """On the CPU no kernel runs: the record and every default fail, and torch serves."""
    made = tuned(here, record(WORK))
    a, b = torch.randn(2, 64, 64, dtype=torch.float16)
    with pytest.warns(MissWarning, match=r"served by library: .*its record does not run"):
        result = made._run(WORK, {"a": a, "b": b}, None, CPU).output
    assert torch.equal(result, a @ b)
    assert made.lookup(WORK).source == "library"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = torch.empty_like(result)
        assert made._run(WORK, {"a": a, "b": b}, out, CPU).output is out


def test_a_miss_can_be_an_error(here: Setting) -> None:
    made = tuned(here, on_miss="error")
    a = torch.zeros(64, 64, dtype=torch.float16)
    for _ in range(2):
        with pytest.raises(Miss, match=r"matmul 64x64x64 .*: the log has no record of this"):
            made._run(WORK, {"a": a, "b": a}, None, CPU)


def test_torch_keeps_the_precision_that_the_workload_states(here: Setting) -> None:
    work = matmul(32, 32, 32, dtype="float32")
    engine = engine_of(Served(work, "library", "for a test"), here.target, CPU)
    assert isinstance(engine, LibraryEngine)
    torch.set_float32_matmul_precision("medium")
    try:
        a = torch.randn(32, 32)
        engine.run([a, a], None)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_what_is_looked_up_computes_the_workload(record: Make, here: Setting) -> None:
    work = matmul(33, 40, 72, dtype="float16", trans_b=True, epilogue=("bias", "relu"))
    for served in (tuned(here, record(work)).lookup(work), tuned(here).lookup(work)):
        assert served.program is not None
        verdict = interpret.check(work, served.program, 7)
        assert isinstance(verdict, Evidence), verdict


SERVE_IN_THE_INTERPRETER = """
import json, sys, threading, torch, warnings
import autosched
warnings.simplefilter("ignore")
tuned = autosched.load(sys.argv[1], target="h200", on_miss="error")
torch.manual_seed(0)
a, b = torch.randn(40, 72).half(), torch.randn(33, 72).half()
bias = torch.randn(33).half()
want = torch.relu(a.float() @ b.float().t() + bias.float())
def close(got): return bool(torch.allclose(got.float(), want, rtol=2e-3, atol=1e-2))
found = {}
from autosched.te.operators import matmul
work = matmul(40, 33, 72, dtype="float16", trans_b=True, epilogue=("bias", "relu"))
engines = []  # made ready at once; the interpreter itself runs one kernel at a time
threads = [threading.Thread(target=lambda: engines.append(
    tuned._engine(work, torch.device("cpu")))) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
found["threads"] = len(engines) == 4 and len(set(map(id, engines))) == 1
found["plain"] = close(tuned.matmul(a, b, trans_b=True, bias=bias, activation="relu"))
found["plans"] = len(tuned._plans)
found["again"] = all(close(tuned.matmul(a, b, trans_b=True, bias=bias, activation="relu"))
    for _ in range(2)) and len(tuned._plans) == 1
found["computed"] = all(close(tuned.compute(work, a, b, bias)) for _ in range(3))
found["view"] = close(tuned.matmul(a, b.t(), bias=bias, activation="relu"))
out = torch.empty(40, 33).half()
found["out"] = tuned.matmul(a, b.t(), bias=bias, activation="relu", out=out) is out and close(out)
padded = torch.randn(40, 80).half(); padded[:, :72] = a
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found["copied"] = close(tuned.matmul(padded[:, :72], b.t(), bias=bias, activation="relu"))
found["warned"] = [w.category.__name__ for w in caught]
found["engines"] = len(tuned._ready)
found["empty"] = list(tuned.matmul(a[:0], b, trans_b=True).shape)
print(json.dumps(found))
"""


def test_a_log_serves_in_the_interpreter(record: Make, tmp_path: Path) -> None:
    """The whole path without a GPU: layouts, outputs, copies, first calls from four threads."""
    work = matmul(40, 33, 72, dtype="float16", trans_b=True, epilogue=("bias", "relu"))
    write(tmp_path / "tuned.jsonl", record(work))
    done = subprocess.run(
        [sys.executable, "-c", SERVE_IN_THE_INTERPRETER, str(tmp_path / "tuned.jsonl")],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "threads": True,
        "plain": True,
        "plans": 1,
        "again": True,
        "computed": True,
        "view": True,
        "out": True,
        "copied": True,
        "warned": ["CopyWarning"],
        "engines": 1,
        "empty": [0, 33],
    }


def test_autograd_is_refused(here: Setting) -> None:
    weight = torch.zeros(2, requires_grad=True)
    with pytest.raises((NeedsGradient, WrongDevice)):
        tuned(here).matmul(weight, weight)
