"""One program serves every extent up to the end of its bucket, and compiles once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autosched.codegen.render import render
from autosched.runtime import engine
from autosched.runtime.bucket import end_of, narrowing
from autosched.runtime.catalog import catalogue
from autosched.runtime.choice import choices
from autosched.runtime.default import Default, default_schedules
from autosched.runtime.device import Setting
from autosched.te.convolution import BY_NAME
from autosched.te.layout import stored
from autosched.te.operators import batch_matmul, matmul
from measure import interpret
from measure.compiler import identity
from measure.job import Built
from measure.log import LogWriter
from measure.measurement import CompiledFacts, Evidence
from measure.record import TrialRecord
from search_space import target as targets
from search_space.extent import CannotNarrow, free_axes, narrowed, resized
from search_space.program import Program
from search_space.schedule import Schedule
from search_space.workload import Workload

H200 = targets.load("h200")
Make = Callable[..., TrialRecord]


def rows(m: int, **options: Any) -> Workload:
    return matmul(m, 48, 64, dtype="float16", trans_b=True, **options)


@cache
def defaults(workload: Workload) -> tuple[Default, ...]:
    return default_schedules(workload, H200)


def made_by(sketch: str, workload: Workload) -> tuple[Schedule, Program]:
    """Return the default schedule by a sketch, and what it renders to."""
    known = {d.schedule.sketch: d.schedule for d in defaults(workload)}
    return known[sketch], render(workload, known[sketch], H200)


def record_by(sketch: str, workload: Workload, record: Make) -> TrialRecord:
    schedule, program = made_by(sketch, workload)
    return record(workload, schedule=schedule.to_data(), program=program.fingerprint)


def binaries(program: Program) -> list[tuple[Any, ...]]:
    return [identity(program, kernel) for kernel in program.kernels]


def test_ends_are_geometric() -> None:
    ends = [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
    assert sorted({end_of(extent) for extent in range(1, 321)}) == ends
    for extent in range(65, 9000):
        end = end_of(extent)
        assert extent <= end < 1.25 * extent
        assert end_of(end) == end


def test_axes_that_mix_are_not_free() -> None:
    assert free_axes(rows(40)) == ("i", "j")
    assert len(free_axes(batch_matmul(3, 40, 48, 64, dtype="float16"))) == 3
    conv = BY_NAME["conv2d"](n=2, h=8, w=8, ci=16, co=16, kh=3, kw=3, pad=1, dtype="float16")
    images, *others = conv.axes
    assert images.name in free_axes(conv)
    windows = {axis.name for axis in others if axis.extent == 8}
    assert len(windows) == 2
    assert not windows & set(free_axes(conv))


def test_resizing_gives_the_workload_of_that_extent() -> None:
    for options in ({}, {"epilogue": ("bias", "relu")}, {"epilogue": ("residual",)}):
        assert resized(rows(40, **options), "i", 64) == rows(64, **options)
    with pytest.raises(CannotNarrow, match="has gaps"):
        resized(stored(rows(40), "A", strides=(80, 1)), "i", 64)
    with pytest.raises(CannotNarrow, match="without mixing"):
        resized(rows(40), "k", 128)


@pytest.mark.parametrize("extent", [1, 37, 63, 64])
@pytest.mark.parametrize("sketch", ["contraction.descriptor", "contraction.descriptor.persistent"])
def test_a_narrowed_program_computes_with_the_same_binary(sketch: str, extent: int) -> None:
    options = {"epilogue": ("bias", "relu")}
    wide, narrow = rows(64, **options), rows(extent, **options)
    _, program = made_by(sketch, wide)
    made = narrowed(program, wide, "i", narrow)
    assert binaries(made) == binaries(program)
    assert made.output.shape == (extent, 48)
    assert isinstance(interpret.check(narrow, made, 7), Evidence)


def test_a_narrowed_batch(record: Make, here: Setting) -> None:
    def batch(b: int, m: int) -> Workload:
        return batch_matmul(b, m, 48, 64, dtype="float16")

    held = catalogue([record_by("contraction.descriptor", batch(3, 64), record)], (), here.place)
    served = next(choices(batch(3, 51), held, here))
    assert served.source == "related"
    assert "serves all up to 64" in served.reason
    assert served.program
    assert isinstance(interpret.check(batch(3, 51), served.program, 7), Evidence)


def test_what_cannot_be_proven_is_refused() -> None:
    wide = rows(64)
    _, by_pointer = made_by("contraction.pointer", wide)
    with pytest.raises(CannotNarrow, match="reached by a pointer"):
        narrowed(by_pointer, wide, "i", rows(37))
    _, stored_by_pointer = made_by("contraction.descriptor.direct", wide)
    with pytest.raises(CannotNarrow, match="'C' is reached by a pointer"):
        narrowed(stored_by_pointer, wide, "i", rows(37))
    _, program = made_by("contraction.descriptor", wide)
    with pytest.raises(CannotNarrow, match="do not differ in a shorter extent alone"):
        narrowed(program, wide, "i", rows(65))
    with pytest.raises(CannotNarrow, match="do not differ in a shorter extent alone"):
        narrowed(program, wide, "i", rows(37, epilogue=("relu",)))


def test_inside_a_bucket_one_program_serves(record: Make, here: Setting) -> None:
    held = catalogue([record_by("contraction.descriptor", rows(64), record)], (), here.place)
    found = [next(choices(rows(m), held, here)) for m in (49, 57, 63)]
    assert {served.source for served in found} == {"related"}
    assert all("serves all up to 64" in served.reason for served in found)
    assert not any(served.proven for served in found)
    programs = [served.program for served in found if served.program]
    measured = made_by("contraction.descriptor", rows(64))[1]
    assert all(binaries(program) == binaries(measured) for program in programs)
    exact = next(choices(rows(57), held, here, buckets=False))
    assert exact.program
    assert "serves all up to" not in exact.reason


def test_a_log_of_pointers_serves_the_extent_itself(record: Make, here: Setting) -> None:
    held = catalogue([record_by("contraction.pointer", rows(64), record)], (), here.place)
    assert narrowing(rows(57), held, H200) is None
    assert not any("serves all up to" in w.reason for w in choices(rows(57), held, here))


def test_a_bucket_is_built_once(
    record: Make, here: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Program] = []

    def build(program: Program, *_: object) -> Built:
        built.append(program)
        return Built(CompiledFacts(0, 0, 0, 0, {}), 0.0, program.fingerprint)

    monkeypatch.setattr(engine, "build", build)
    monkeypatch.setattr(engine, "_built", set())
    held = catalogue([record_by("contraction.descriptor", rows(64), record)], (), here.place)
    for m in (49, 57, 63):
        program = next(choices(rows(m), held, here)).program
        assert program
        assert engine._build_once(program, H200.triton_target) is None
    assert len(built) == 1


SERVE = """
import json, sys, warnings, torch
import autosched
from measure import compiler
warnings.simplefilter("ignore")
functions = set()
make = compiler.function
def counted(kernel):
    functions.add(kernel.source)
    return make(kernel)
compiler.function = counted
tuned = autosched.load(sys.argv[1], target="h200")
torch.manual_seed(0)
whole, b = torch.full((64, 64), torch.nan).half(), torch.randn(48, 64).half()
found = {}
for m in (49, 51, 63):
    whole[:m] = torch.randn(m, 64).half()
    whole[m:] = torch.nan
    held = torch.full((64, 48), 7.0).half()
    out = tuned.matmul(whole[:m], b, trans_b=True, out=held[:m])
    want = whole[:m].double() @ b.double().t()
    right = torch.allclose(out.double(), want, rtol=2e-3, atol=1e-2)
    alone = tuned.matmul(whole[:m], b, trans_b=True)
    found[m] = [right, bool((held[m:] == 7).all()), torch.equal(alone, out)]
print(json.dumps([found, len(functions)]))
"""


def test_what_lies_beyond_is_neither_read_nor_written(record: Make, tmp_path: Path) -> None:
    """Odd numbers of rows inside a bucket, NaN below them, 7 below the output."""
    path = tmp_path / "log.jsonl"
    with LogWriter(path) as log:
        log.append(record_by("contraction.descriptor", rows(64), record))
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(path)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found, functions = json.loads(done.stdout)
    assert found == {str(m): [True, True, True] for m in (49, 51, 63)}
    assert functions == 1
