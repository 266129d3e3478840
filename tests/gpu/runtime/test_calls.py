"""Second calls: whatever runs beside them, and whoever had the memory before, they are right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch

import autosched
from autosched.codegen.render import render
from autosched.runtime.engine import KernelEngine
from autosched.runtime.packs import Packs
from autosched.te.operators import matmul
from measure import verify
from measure.launch import Launcher
from search_space.rules import sketches
from search_space.sample import random_choices
from search_space.sketch import fill
from search_space.target import Target

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]
Log = Callable[..., object]
#: A long reduction of a small output: sketches share it out, through workspaces and counters.
LONG = matmul(64, 64, 8192, dtype="float16", trans_b=True)
DEVICE = torch.device("cuda", 0)


def engine(name: str, target: Target) -> KernelEngine:
    sketch = next(s for s in sketches(LONG, target) if s.name == name)
    rng = random.Random(0)
    for _ in range(50):
        choices = random_choices(sketch, target, rng)
        assert choices is not None
        program = render(LONG, fill(sketch, choices), target)
        try:
            return KernelEngine(Launcher(program, DEVICE), Packs())
        except Exception:  # noqa: BLE001  a schedule that does not fit: the next one
            continue
    raise AssertionError(f"no schedule of {name} fits")


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.randn(64, 8192, device="cuda").half(),
        torch.randn(64, 8192, device="cuda").half(),
    )


@pytest.fixture(params=["split.workspace", "split.counter", "split.atomic"])
def shared(request: pytest.FixtureRequest, target: Target) -> KernelEngine:
    names = [s.name for s in sketches(LONG, target) if s.name.endswith(request.param)]
    assert names
    return engine(names[0], target)


def right(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
    want = a.double() @ b.double().t()
    return bool(torch.allclose(result.double(), want, rtol=3e-3, atol=0.2))


def test_threads_and_streams_share_no_scratch(shared: KernelEngine) -> None:
    """Every thread has data of its own, so that a result of another's workspace is wrong."""
    wrong: list[int] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        torch.manual_seed(number)
        a, b = operands()
        torch.cuda.synchronize()
        start.wait()
        stream = torch.cuda.Stream() if number % 2 else torch.cuda.default_stream()
        with torch.cuda.stream(stream):
            results = [shared.run([a, b], None) for _ in range(20)]
        torch.cuda.synchronize()
        if not all(right(result, a, b) for result in results):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_graph_has_scratch_of_its_own(shared: KernelEngine) -> None:
    a, b = operands()
    out = torch.empty(64, 64, device="cuda", dtype=torch.float16)
    shared.run([a, b], out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        shared.run([a, b], out)
    other = operands()
    with torch.cuda.stream(torch.cuda.Stream()):
        beside = [shared.run(other, None) for _ in range(20)]
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert right(out, a, b)
    assert all(right(result, *other) for result in beside)


def test_memory_that_is_freed_and_given_out_again(target: Target, log: Log) -> None:
    """Tensors of two shapes take turns at one address: arguments are found by program and address,
    and those of the one must never serve the other."""
    tuned = autosched.load(str(log()), on_miss="serve")
    seen: set[int] = set()
    again = 0
    for turn in range(40):
        m, k = ((256, 128), (128, 256))[turn % 2]
        a = torch.randn(m, k, device="cuda").half()
        b = torch.randn(k, 64, device="cuda").half()
        again += a.data_ptr() in seen
        seen.add(a.data_ptr())
        torch.testing.assert_close(tuned.matmul(a, b), a @ b, rtol=2e-3, atol=2e-2)
        del a, b
    assert again > 10


def test_a_thread_that_never_called_cuda(log: Log) -> None:
    tuned = autosched.load(str(log()), on_miss="serve")
    a, b = (torch.randn(128, 128, device="cuda").half() for _ in range(2))
    out = torch.empty_like(a)
    want = tuned.matmul(a, b, out=out).clone()
    out.zero_()
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: tuned.matmul(a, b, out=out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, want)


def test_a_prepared_call(log: Log) -> None:
    tuned = autosched.load(str(log()), on_miss="serve")
    work = matmul(256, 128, 64, dtype="bfloat16", epilogue=("bias",))
    call = tuned.prepare(work)
    case = verify.random_case(work, 0, DEVICE)
    assert float(verify.worst_error(case, call(*case.inputs))) <= 1
    out = torch.empty_like(call(*case.inputs))
    assert call(*case.inputs, out=out) is out
    assert float(verify.worst_error(case, out)) <= 1
    with pytest.raises(ValueError, match=r"is torch\.float32"):
        call(*(t.float() for t in case.inputs))


AFTER_A_FORK = """
import os, sys, torch, autosched
tuned = autosched.load(sys.argv[1], on_miss="serve")
a = torch.randn(128, 128, device="cuda").half()
out = torch.empty_like(a)
tuned.matmul(a, a.clone(), out=out)
call = next(iter(tuned._plans.values()))
b = a.clone()
torch.cuda.synchronize()
child = os.fork()
if child == 0:
    try:
        tuned.matmul(a, b, out=out)
    except Exception as error:
        print(type(error).__name__, str(error)[:200], flush=True)
        os._exit(0)
    os._exit(1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_after_a_fork_there_is_a_clear_error(log: Log) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_A_FORK, str(log())],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert "fork" in done.stdout


def test_another_device_may_be_current(log: Log) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    tuned = autosched.load(str(log()), on_miss="serve")
    a, b = (torch.randn(128, 128, device="cuda:1").half() for _ in range(2))
    for _ in range(2):
        torch.testing.assert_close(tuned.matmul(a, b), a @ b, rtol=2e-3, atol=2e-2)
