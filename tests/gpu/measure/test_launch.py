"""Programs start on a real GPU: pointers and descriptors, any stream, with their errors."""

from __future__ import annotations

from dataclasses import replace

import hand_kernels as kernels
import pytest
import torch
import triton

from measure import verify
from measure.builder import build
from measure.compiler import compile_kernel
from measure.job import Built
from measure.launch import BadArgument, Launcher
from measure.measurement import Failed
from search_space.program import Buffer, Kernel, PointerArgument, Program

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
WORKLOAD = kernels.workload(256, 512, 1024)

PARTIAL = """\
def kernel(a, b, c):
    pid = tl.program_id(0)
    part = tl.program_id(2)
    rm = tl.arange(0, 32)
    rn = pid * 32 + tl.arange(0, 32)
    rk = part * 32 + tl.arange(0, 32)
    x = tl.load(a + rm[:, None] * 64 + rk[None, :])
    y = tl.load(b + rk[:, None] * 64 + rn[None, :])
    tl.atomic_add(c + rm[:, None] * 64 + rn[None, :], tl.dot(x, y), sem="relaxed")
"""
SECOND = """\
def finish(w, c):
    r = tl.arange(0, 2048)
    tl.store(c + r, tl.load(w + r).to(tl.float16))
"""


def right(program: Program, workload: object = WORKLOAD) -> float:
    case = verify.random_case(workload, 0, DEVICE)  # type: ignore[arg-type]
    call = Launcher(program, DEVICE).prepare(case.inputs)
    call.output.fill_(torch.nan)
    call.run()
    return float(verify.worst_error(case, call.output))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_pointers(dtype: str) -> None:
    w = kernels.workload(256, 512, 1024, dtype)
    assert right(kernels.pointer_matmul(w, (64, 64, 32)), w) <= 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_descriptors(dtype: str) -> None:
    w = kernels.workload(256, 512, 1024, dtype)
    assert right(kernels.descriptor_matmul(w, (64, 128, 64)), w) <= 1


def test_a_program_of_two_kernels_and_a_zeroed_workspace_runs_again() -> None:
    w = kernels.workload(32, 64, 64)
    buffers = (*kernels.buffers(w), Buffer("W", (32, 64), (64, 1), "float32", "workspace", True))
    names = tuple(PointerArgument(n) for n in "ABW")
    two = Program(
        buffers,
        (
            Kernel("kernel", kernels.HEAD + PARTIAL, names, (2, 1, 2), 4, 1),
            Kernel(
                "finish",
                kernels.HEAD + SECOND,
                (PointerArgument("W"), PointerArgument("C")),
                (1, 1, 1),
                4,
                1,
            ),
        ),
        1,
    )
    case = verify.random_case(w, 0, DEVICE)
    call = Launcher(two, DEVICE).prepare(case.inputs)
    for _ in range(3):
        call.run()
        assert float(verify.worst_error(case, call.output)) <= 1


def test_the_current_stream_is_used_and_a_graph_can_capture() -> None:
    case = verify.random_case(WORKLOAD, 0, DEVICE)
    call = Launcher(kernels.descriptor_matmul(WORKLOAD, (64, 128, 64)), DEVICE).prepare(case.inputs)
    call.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call.run()
    call.output.fill_(torch.nan)
    graph.replay()
    assert float(verify.worst_error(case, call.output)) <= 1
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call.output.fill_(torch.nan)
        call.run()
    stream.synchronize()
    assert float(verify.worst_error(case, call.output)) <= 1


def test_the_builders_work_is_found_in_the_cache() -> None:
    program = kernels.descriptor_matmul(kernels.workload(128, 128, 320), (64, 64, 64))
    major, minor = torch.cuda.get_device_capability(DEVICE)
    target = ("cuda", major * 10 + minor, 32)
    assert isinstance(build(program, target), Built)
    seen: list[bool] = []
    triton.knobs.compilation.listener = lambda **event: seen.append(event["cache_hit"])
    try:
        Launcher(program, DEVICE)
        compile_kernel(program, program.kernels[0], target)
    finally:
        triton.knobs.compilation.listener = None
    assert seen == [True, True]


def test_bad_arguments_are_named() -> None:
    launcher = Launcher(kernels.pointer_matmul(WORKLOAD, (64, 64, 32)), DEVICE)
    a, b = verify.random_case(WORKLOAD, 0, DEVICE).inputs
    wide = torch.empty(256 * 1024 + 8, dtype=torch.float16, device=DEVICE)
    for inputs, said in (
        ((a,), "takes 2 inputs, not 1"),
        ((a.float(), b), "A: the program takes dtype torch.float16"),
        ((a, b[:512]), "B: the program takes shape"),
        ((a, b.T.contiguous().T), "B: the program takes strides"),
        ((a.cpu(), b), "A: the program takes device cuda:0"),
        ((wide[1 : 1 + 256 * 1024].view(256, 1024), b), "multiple of 16 bytes"),
    ):
        with pytest.raises(BadArgument, match=said):
            launcher.prepare(inputs)
    with pytest.raises(BadArgument, match="C: the output overlaps input B"):
        launcher.prepare((a, b), b.view(-1)[: 256 * 512].view(256, 512))


def test_a_kernel_that_needs_too_much_is_refused_when_loaded() -> None:
    base = kernels.descriptor_matmul(kernels.workload(128, 128, 2048), (64, 64, 256))
    deep = replace(base, kernels=(replace(base.kernels[0], stages=5),))
    with pytest.raises(triton.runtime.errors.OutOfResources):
        Launcher(deep, DEVICE)
    assert not isinstance(build(deep, ("cuda", 90, 32)), Failed)
