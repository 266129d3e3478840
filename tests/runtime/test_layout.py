"""Tensors that lie otherwise than row by row at multiples of 16 bytes: served as they lie where the
log has just that, and never by a kernel that was promised more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from autosched.cli.main import main
from autosched.runtime.catalog import catalogue
from autosched.runtime.device import Setting
from autosched.runtime.layout import Relatives, stored_as
from autosched.runtime.tensor import aligned_bytes
from autosched.spec import load
from autosched.te.layout import stored
from autosched.te.operators import matmul
from measure.log import LogWriter, best, read
from measure.record import TrialRecord, WorkloadText
from search_space.workload import Workload

Make = Callable[..., TrialRecord]
WORK = matmul(8, 16, 32, dtype="float16")
PADDED = stored(WORK, "A", strides=(40, 1), alignment_bytes=2)
NARROW = stored(WORK, "A", alignment_bytes=8)


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.float16)


@pytest.fixture
def relatives(record: Make, here: Setting) -> Callable[..., Relatives]:
    plain = record(WORK)

    def make(*workloads: Workload) -> Relatives:
        records = [of(plain, workload) for workload in workloads]
        return Relatives(catalogue(records, (), here.place).best)

    return make


def of(record: TrialRecord, workload: Workload, **changes: object) -> TrialRecord:
    """The record as if of another workload."""
    text = WorkloadText(key=workload.key, text=workload.canonical, label=workload.label)
    return record.model_copy(update={"workload": text, **changes})


def test_a_record_fits_by_strides_and_by_the_address(relatives: Callable[..., Relatives]) -> None:
    known = relatives(WORK, PADDED, NARROW)
    b, flat = half(32, 16), half(1024)
    plain = flat[: 8 * 32].view(8, 32)
    eight, two = flat[4 : 4 + 8 * 32].view(8, 32), flat[1 : 1 + 8 * 32].view(8, 32)
    padded = flat[1 : 1 + 8 * 40].view(8, 40)[:, :32]
    for a, wish in ((plain, WORK), (eight, NARROW), (two, None), (padded, PADDED)):
        found = known.fitting(WORK, (a, b), None)
        assert (found and found.key) == (wish and wish.key)
    assert known.fitting(WORK, (plain, flat[1 : 1 + 32 * 16].view(32, 16)), None) is None


def test_what_is_promised_less_serves_where_nothing_else_is_logged(
    relatives: Callable[..., Relatives],
) -> None:
    found = relatives(PADDED, NARROW).fitting(WORK, (half(8, 32), half(32, 16)), None)
    assert found == NARROW
    other = matmul(8, 16, 32, dtype="float16", epilogue=("relu",))
    assert not relatives(other).any(WORK)


def test_a_padded_output_is_for_those_who_hand_one_in(relatives: Callable[..., Relatives]) -> None:
    wide = stored(WORK, "C", strides=(24, 1))
    known, inputs = relatives(wide), (half(8, 32), half(32, 16))
    assert known.fitting(WORK, inputs, None) is None
    assert known.fitting(WORK, inputs, half(8, 16)) is None
    assert known.fitting(WORK, inputs, half(8, 24)[:, :16]) == wide


@pytest.mark.parametrize(
    "change",
    [
        ("strides=[40,1]", "strides=[40]"),
        ("strides=[40,1]", "strides=[40,1,1]"),
        ("strides=[40,1]", f"strides=[{10**12},1]"),
        ("strides=[40,1]", f"strides=[{'9' * 5000},1]"),
        ("align=2", "align=3"),
        ("align=2", "align=1"),
        ("strides=[16,1] align=16\nT2", "strides=[0,1] align=16\nT2"),
        ("i0=8", "i0=9"),
    ],
    ids=lambda change: change[1][:20],
)
def test_text_that_no_tensor_can_be_is_refused(change: tuple[str, str]) -> None:
    assert stored_as(WORK, PADDED.canonical) == PADDED
    text = PADDED.canonical.replace(*change)
    assert text != PADDED.canonical
    assert stored_as(WORK, text) is None


def test_the_alignment_of_an_address() -> None:
    flat = torch.empty(1024, dtype=torch.int8)
    begin = -flat.data_ptr() % 256
    assert [aligned_bytes(flat[begin + n :]) for n in (0, 1, 2, 4, 24, 48)] == [256, 1, 2, 4, 8, 16]


#: Batches that share an operand; rows of a slice, at any address; columns so far apart that offsets
#: pass 2**31 elements; and one that lies plainly.
SPECS = (
    "batch_matmul:batch=3,m=20,n=24,k=40,dtype=float16,strides.b=0+24+1",
    "matmul:m=20,n=24,k=40,dtype=float16,strides.a=56+1,alignment_bytes.a=2",
    f"matmul:m=20,n=4,k=40,dtype=float16,trans_b=true,strides.b={2**30}+1",
    "matmul:m=32,n=32,k=32,dtype=float16,trans_b=true",
)
SERVE = """
import json, mmap, sys, torch, warnings
from triton.runtime import interpreter
import autosched
from autosched.runtime import engine
from autosched.runtime.errors import CopyWarning, WrongLayout
tuned = autosched.load(sys.argv[1], target="h200", on_miss="error")
torch.manual_seed(0)
def half(*shape): return torch.randint(-2, 3, shape).half()  # sums are exact
def right(a, b, **how):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = tuned.matmul(a, b, **how)
    copied = [str(w.message) for w in caught if w.category is CopyWarning]
    return torch.equal(got, (a.float() @ b.float()).half()), copied
found = {}
found["shared"] = right(half(3, 20, 40), half(40, 24).expand(3, 40, 24))
rows = half(20 * 56 + 8)[1:1 + 20 * 56].view(20, 56)
found["odd rows"] = right(rows[:, :40], half(40, 24))
found["even rows"] = right(half(20, 56)[:, 16:], half(40, 24))
# 6 GB that are never touched: no proof on data of this size, and no copy of it all.
engine._proof = lambda *_: None
interpreter.GridExecutor._restore_args_dev = lambda *_: None
memory = mmap.mmap(-1, 2 * (3 * 2**30 + 40), flags=mmap.MAP_PRIVATE | 0x4000)  # MAP_NORESERVE
b = torch.frombuffer(memory, dtype=torch.float16).as_strided((4, 40), (2**30, 1))
b.copy_(half(4, 40))
found["columns"] = right(half(20, 40), b.t())
x = half(64, 32)
found["itself"] = right(x[:32], x[:32].t())
found["overlapping"] = right(x[:32], x[16:48].t())
ok, copied = right(half(32 * 32 + 8)[1:1025].view(32, 32), x[:32].t())
found["odd"] = ok
found["copied"] = copied[0]
refused = []
for out in (x[:32], x[31:63], x.view(-1)[16:16 + 1024].view(32, 32)):
    try:
        tuned.matmul(x[:32], x[16:48].t(), out=out)
    except WrongLayout as error:
        refused.append(str(error))
found["refused"] = refused
found["engines"] = len(tuned._ready)
print(json.dumps(found))
"""


def test_from_a_spec_to_a_result_whatever_operands_lie_like(record: Make, tmp_path: Path) -> None:
    """Tuned on the model of a GPU, logged as if measured, loaded and run in the interpreter."""
    tuned, log = tmp_path / "model.jsonl", tmp_path / "tuned.jsonl"
    options = ["--device", "model", "--trials", "1", "-o", str(tuned), "-q"]
    done = CliRunner().invoke(main, ["tune", *SPECS, *options])
    assert done.exit_code == 0, done.stderr
    found = best(read(tuned).records, predicted=True)
    measured = record(WORK)
    with LogWriter(log) as writer:
        for spec in SPECS:
            (task,) = load(spec)
            made = found[task.workload.key, "h200"]
            changes = {"schedule": made.schedule, "program": made.program}
            writer.append(of(measured, task.workload, **changes))
    done_there = subprocess.run(
        [sys.executable, "-c", SERVE, str(log)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done_there.returncode == 0, done_there.stderr
    result = json.loads(done_there.stdout)
    as_they_lie = ("shared", "odd rows", "even rows", "columns", "itself", "overlapping")
    assert {name: result[name] for name in as_they_lie} == {
        name: [True, []] for name in as_they_lie
    }
    assert result["odd"] is True
    assert result["copied"] == (
        "a is copied before each run of matmul 32x32x32 float16 nt: 2048 bytes, as it has strides "
        "(32, 1) and an address aligned to 2 bytes, where (32, 1) and 16 are wanted; make it so "
        "once, or tune this workload with those strides and alignment, to save that"
    )
    assert [text.split(":")[0] for text in result["refused"]] == [
        "out shares memory with a",
        "out shares memory with a",
        "out shares memory with a",
    ]
    assert result["engines"] == len(SPECS)
