from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import autosched
from autosched.codegen.render import render
from autosched.runtime.default import default_schedules
from autosched.runtime.errors import (
    CopyWarning,
    Miss,
    MissWarning,
    NeedsGradient,
    WrongDevice,
    WrongDtype,
    WrongLayout,
    WrongShape,
)
from autosched.runtime.tuned import Tuned
from autosched.te.layout import stored
from autosched.te.operators import batch_matmul, matmul
from measure import verify
from measure.record import TrialRecord
from search_space.target import Target
from search_space.workload import Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]

WORK = matmul(512, 384, 256, dtype="float16", trans_b=True)
Measured = Callable[..., TrialRecord]
Log = Callable[..., Path]

IN_A_NEW_PROCESS = """
import json, sys, torch
import autosched
tuned = autosched.load(sys.argv[1], on_miss="error")
torch.manual_seed(1)
a = torch.randn(512, 256, device="cuda").half()
b = torch.randn(384, 256, device="cuda").half()
c = tuned.matmul(a, b, trans_b=True)
(served, _), = tuned._ready.values()
want = a.double() @ b.double().t()
error = float((c.double() - want).abs().max() / want.abs().max())
heavy = [m for m in ("xgboost", "sklearn", "autosched.tune") if m in sys.modules]
print(json.dumps([served.source, served.fingerprint, served.proven, error, heavy]))
"""


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").half()


def check(workload: Workload, result: torch.Tensor, inputs: list[torch.Tensor]) -> None:
    want = inputs[0].double() @ inputs[1].double()
    for extra in inputs[2:]:
        want = want + extra.double()
    assert result.shape == workload.output.shape
    torch.testing.assert_close(result.double(), want, rtol=2e-3, atol=2e-2)


def test_a_new_process_serves_the_same_kernel(measured: Measured, log: Log) -> None:
    record = measured(WORK)
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS, str(log(record))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    source, fingerprint, proven, error, heavy = json.loads(done.stdout)
    assert (source, fingerprint, heavy) == ("tuned", record.program, [])
    assert proven == bool(record.provenance.driver)
    assert error < 2e-3


def test_a_shape_that_is_not_logged_still_works(log: Log) -> None:
    tuned = autosched.load(log())
    a, b = half(100, 72), half(72, 130)
    with pytest.warns(MissWarning, match="the log has no record of this workload"):
        result = tuned.matmul(a, b)
    check(matmul(100, 130, 72, dtype="float16"), result, [a, b])
    assert tuned.lookup(matmul(100, 130, 72, dtype="float16")).source in ("default", "library")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned.matmul(a, b)


def test_a_miss_can_be_an_error(log: Log) -> None:
    with pytest.raises(Miss, match="the log has no record"):
        autosched.load(log(), on_miss="error").matmul(half(64, 64), half(64, 64))


@pytest.mark.parametrize(
    "change",
    [{"gpu": "NVIDIA X1"}, {"rendering_version": 999}, {"evidence": None}, {"program": "0" * 16}],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_is_not_for_here_is_not_served(
    measured: Measured, log: Log, change: dict[str, object]
) -> None:
    tuned = autosched.load(log(measured(WORK, **change)))
    a, b = half(512, 256), half(384, 256)
    with pytest.warns(MissWarning):
        result = tuned.matmul(a, b, trans_b=True)
    check(WORK, result, [a, b.t()])
    assert tuned.lookup(WORK).source != "tuned"


def test_a_record_of_another_triton_is_proven_again_and_served(
    measured: Measured, log: Log
) -> None:
    record = measured(WORK)
    old = record.provenance.model_copy(update={"triton": "3.5.0"})
    tuned = autosched.load(log(record.model_copy(update={"provenance": old})), on_miss="error")
    a, b = half(512, 256), half(384, 256)
    check(WORK, tuned.matmul(a, b, trans_b=True), [a, b.t()])
    served = tuned.lookup(WORK)
    assert (served.source, served.proven) == ("tuned", False)


def test_layouts_share_the_record_of_what_lies_in_memory(measured: Measured, log: Log) -> None:
    tuned = autosched.load(log(measured(WORK)), on_miss="error")
    a, b = half(512, 256), half(384, 256)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(WORK, tuned.matmul(a, b.t()), [a, b.t()])
    padded = half(512, 320)[:, :256]
    offset = half(512 * 256 + 1)[1:].reshape(512, 256)
    for odd in (padded, offset, a[:1].expand(512, 256)):
        fresh = autosched.load(log(measured(WORK)), on_miss="error")
        with pytest.warns(CopyWarning, match="262144 bytes"):
            check(WORK, fresh.matmul(odd, b, trans_b=True), [odd, b.t()])


def test_records_serve_tensors_as_they_lie(measured: Measured, log: Log) -> None:
    odd = stored(WORK, "A", strides=(320, 1), alignment_bytes=4)
    batch = batch_matmul(3, 512, 384, 256, dtype="float16", trans_b=True)
    shared = stored(batch, "B", strides=(0, 256, 1))
    tuned = autosched.load(log(*map(measured, (WORK, odd, shared))), on_miss="error")
    x, many = half(640, 256), half(3, 512, 256)
    a, b = half(512 * 320 + 8)[2 : 2 + 512 * 320].view(512, 320)[:, :256], x[:384]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(odd, tuned.matmul(a, b, trans_b=True), [a, b.t()])
        result = tuned.matmul(many, b.expand(3, 384, 256), trans_b=True)
        check(shared, result, [many, b.t().expand(3, 256, 384)])
        check(WORK, tuned.matmul(x[128:], b, trans_b=True), [x[128:], b.t()])  # they overlap
    assert len(tuned._ready) == 3


def test_epilogues_batches_and_outputs(log: Log) -> None:
    tuned = autosched.load(log(), on_miss="serve")
    a, b, bias, residual = half(65, 48), half(48, 40), half(40), half(65, 40)
    result = tuned.matmul(a, b, bias=bias, residual=residual)
    check(matmul(65, 40, 48, dtype="float16"), result, [a, b, bias, residual])
    for name, function in (
        ("relu", torch.relu),
        ("gelu", torch.nn.functional.gelu),
        ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("silu", torch.nn.functional.silu),
    ):
        result = tuned.matmul(a, b, bias=bias, activation=name)
        want = function(a.float() @ b.float() + bias.float())
        torch.testing.assert_close(result.float(), want, rtol=2e-3, atol=2e-2)
    many, other = half(3, 33, 24), half(3, 24, 17)
    check(batch_matmul(3, 33, 17, 24, dtype="float16"), tuned.matmul(many, other), [many, other])
    out = torch.empty(65, 40, device="cuda", dtype=torch.float32)
    assert tuned.matmul(a, b, out=out, out_dtype="float32") is out
    torch.testing.assert_close(out, a.float() @ b.float(), rtol=1e-4, atol=1e-3)


def test_extents_of_zero(log: Log) -> None:
    tuned = autosched.load(log(), on_miss="serve")
    assert tuned.matmul(half(0, 8), half(8, 4)).shape == (0, 4)
    bias = half(4)
    result = tuned.matmul(half(3, 0), half(0, 4), bias=bias)
    assert torch.equal(result, bias.expand(3, 4))


def test_float32_means_what_it_says(log: Log) -> None:
    tuned = autosched.load(log(), on_miss="serve")
    a, b = torch.randn(2, 128, 128, device="cuda")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        exact = tuned.matmul(a, b)
        rounded = tuned.matmul(a, b, precision="tf32")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    want = (a.double() @ b.double()).float()
    torch.testing.assert_close(exact, want, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(rounded, want, rtol=1e-2, atol=1e-1)


def test_an_expression_is_computed_like_any_other(measured: Measured, log: Log) -> None:
    tuned = autosched.load(log(measured(WORK)), on_miss="error")
    case = verify.random_case(WORK, 3, torch.device("cuda", 0))
    assert float(verify.worst_error(case, tuned.compute(WORK, *case.inputs))) <= 1.0


def test_wrong_inputs_have_an_error_each(log: Log) -> None:
    tuned = autosched.load(log())
    a, b = half(64, 32), half(32, 16)
    refused = [
        (WrongDtype, "a is torch.float64", lambda: tuned.matmul(a.double(), b.double())),
        (WrongDtype, "b is torch.bfloat16, but a is", lambda: tuned.matmul(a, b.bfloat16())),
        (WrongDevice, "a is on cpu", lambda: tuned.matmul(a.cpu(), b)),
        (WrongDevice, "b is on cpu", lambda: tuned.matmul(a, b.cpu())),
        (WrongShape, "a has k=32 and b has k=64", lambda: tuned.matmul(a, a)),
        (WrongShape, "bias has shape", lambda: tuned.matmul(a, b, bias=half(15))),
        (WrongDtype, "bias is torch.float32", lambda: tuned.matmul(a, b, bias=half(16).float())),
        (NeedsGradient, "b requires grad", lambda: tuned.matmul(a, b.clone().requires_grad_())),
        (WrongShape, "out has shape", lambda: tuned.matmul(a, b, out=half(64, 17))),
        (WrongLayout, "out has strides", lambda: tuned.matmul(a, b, out=half(16, 64).t())),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
    square = half(64, 64)
    with pytest.raises(WrongLayout, match="out shares memory with a"):
        tuned.matmul(square, half(64, 64), out=square)


def test_sixteen_threads_make_the_first_call(measured: Measured, log: Log) -> None:
    tuned = autosched.load(log(measured(WORK)), on_miss="error")
    a, b = half(512, 256), half(384, 256)
    results: list[torch.Tensor] = []
    start = threading.Barrier(16)

    def call() -> None:
        start.wait()
        with torch.cuda.stream(torch.cuda.Stream()):
            result = tuned.matmul(a, b, trans_b=True)
            torch.cuda.current_stream().synchronize()
            results.append(result)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    assert len(tuned._ready) == 1
    for result in results:
        assert torch.equal(result, results[0])


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_calls_can_be_captured_in_a_graph(measured: Measured, log: Log, warm: bool) -> None:
    tuned = autosched.load(log(measured(WORK)), on_miss="serve")
    a, b = half(512, 256), half(384, 256)
    out = torch.empty(512, 384, device="cuda", dtype=torch.float16)
    if warm:
        tuned.matmul(a, b, trans_b=True, out=out)
    else:
        torch.mm(a, b.t(), out=out)  # the library makes its handle before a capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tuned.matmul(a, b, trans_b=True, out=out)
    a.copy_(half(512, 256))
    out.zero_()
    graph.replay()
    check(WORK, out, [a, b.t()])
    assert len(tuned._ready) == int(warm)


CONSTANT = matmul(256, 500, 520, dtype="float16", constant=("b",))


def packed_record(measured: Measured, target: Target) -> TrialRecord:
    """Measure the first default that packs its constant operand and nothing else."""
    for choice, default in enumerate(default_schedules(CONSTANT, target)):
        kernels = render(CONSTANT, default.schedule, target).kernels
        if any(kernel.prepares for kernel in kernels):
            return measured(CONSTANT, choice)
    raise AssertionError("no default packs the constant operand")


def served(tuned: Tuned, b: torch.Tensor) -> None:
    a = half(256, 520)
    check(CONSTANT, tuned.matmul(a, b, constant=["b"]), [a, b])


def test_a_constant_operand_is_packed_once_and_followed(
    measured: Measured, log: Log, target: Target
) -> None:
    record = packed_record(measured, target)
    assert record.evidence is not None
    assert record.evidence.constant == ("B",)
    tuned = autosched.load(log(record), on_miss="error")
    b = half(520, 500)
    served(tuned, b)
    [pack] = tuned._packs._packs.values()
    assert tuned.packed_bytes >= b.numel() * 2
    served(tuned, b)
    served(tuned, b.view(520, 500))
    assert list(tuned._packs._packs.values()) == [pack]
    b.mul_(-1)
    served(tuned, b)
    b.data.mul_(-1)
    tuned.invalidate(b)
    served(tuned, b)
    del b
    assert tuned.packed_bytes == 0
    served(tuned, half(520, 500))  # the allocator may lend the same address again
    assert tuned.packed_bytes == 0
    with torch.inference_mode():
        frozen = half(520, 500)
        served(tuned, frozen)
        frozen.mul_(-1)
        served(tuned, frozen)
    tuned.freeze(frozen)
    before = len(tuned._packs)
    served(tuned, frozen)
    served(tuned, frozen)
    assert len(tuned._packs) == before + 1


def test_packs_cross_streams_and_threads(measured: Measured, log: Log, target: Target) -> None:
    tuned = autosched.load(log(packed_record(measured, target)), on_miss="error")
    a = half(256, 520)
    tuned.matmul(a, half(520, 500), constant=["b"])  # compiled before streams race
    torch.cuda.synchronize()
    for _ in range(20):
        b = half(520, 500)
        want = a.double() @ b.double()
        torch.cuda.synchronize()
        results: list[torch.Tensor] = []
        slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(slow):
            torch.cuda._sleep(2_000_000)  # the pack is behind this
            results.append(tuned.matmul(a, b, constant=["b"]))

        def call(
            stream: torch.cuda.Stream = fast,
            b: torch.Tensor = b,
            results: list[torch.Tensor] = results,
        ) -> None:
            with torch.cuda.stream(stream):
                results.append(tuned.matmul(a, b, constant=["b"]))

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
        assert len(results) == 3
        for result in results:
            torch.testing.assert_close(result.double(), want, rtol=2e-3, atol=2e-2)


def test_a_graph_follows_its_constant_operand(measured: Measured, log: Log, target: Target) -> None:
    tuned = autosched.load(log(packed_record(measured, target)), on_miss="error")
    a, b = half(256, 520), half(520, 500)
    served(tuned, b)
    held = tuned.packed_bytes
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tuned.matmul(a, b, constant=["b"])
    assert tuned.packed_bytes == held
    b.mul_(-1)
    graph.replay()
    torch.cuda.synchronize()
    check(CONSTANT, result, [a, b])
    tuned.freeze(b)
    served(tuned, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tuned.matmul(a, b, constant=["b"])
    result.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    check(CONSTANT, result, [a, b])
