"""Processes serve one workload after another; what broke, or was killed at work, is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import hand_kernels as kernels
import pytest

from measure.builder import BuilderPool
from measure.child import Child
from measure.crew import Crew
from measure.job import Build, Built
from measure.measurement import Failed, Timed
from measure.model_device import ModelDevice
from measure.pipeline import Closed
from measure.runner import Runner
from search_space import target as targets
from search_space.program import Program

H200 = targets.load("h200")
WORKLOAD, OTHER = kernels.workload(16, 32, 48), kernels.workload(32, 32, 32)
TILE = (16, 32, 16)


def program(number: int = 0) -> Program:
    return kernels.pointer_matmul(WORKLOAD, TILE, text=f"{kernels.MATMUL}    # {number}\n")


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(1) as crew:
        yield crew


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Child("cpu_worker")


def test_builders_stay_from_one_device_to_the_next(crew: Crew) -> None:
    with ModelDevice(H200, lambda _: 1.0, timeout_s=60, crew=crew) as device:
        assert isinstance(device.submit([program(1)]).results(120)[0], Timed)
        (pid,) = [child.pid for child in crew.builders(60)._children.values()]
    with ModelDevice(H200, lambda _: 2.0, timeout_s=50, crew=crew) as device:
        (timed,) = device.submit([program(1)]).results(120)
    assert isinstance(timed, Timed)
    assert timed.latency_us == 2.0
    pool = crew.builders(50)
    assert [child.pid for child in pool._children.values()] == [pid]
    assert pool.timeout_s == 50


def test_what_has_not_begun_to_build_is_dropped_with_its_device(crew: Crew) -> None:
    pool = crew.builders(60)
    asked: list[Future[Built | Failed]] = []
    submit = pool.submit
    pool.submit = lambda *a: asked.append(submit(*a)) or asked[-1]  # type: ignore[method-assign,func-returns-value]
    device = ModelDevice(H200, lambda _: 1.0, crew=crew)
    pending = device.submit([program(n) for n in range(6)])
    device.close()
    with pytest.raises(Closed):
        pending.results(30)
    dropped = [future for future in asked if future.cancelled()]
    assert len(dropped) >= 4
    with pytest.raises(CancelledError):
        dropped[0].result()
    assert isinstance(pool.build(program(9), H200.triton_target), Built)


def test_a_worker_takes_the_next_workload(crew: Crew, worker: Child) -> None:
    crew.leave(worker)
    first = Runner(WORKLOAD, H200, "cpu", timeout_s=8, child=crew.worker())
    assert isinstance(first.measure(program()), Timed)
    left = first.release()
    assert left is worker
    crew.leave(left)
    second = Runner(OTHER, H200, "cpu", timeout_s=8, child=crew.worker())
    right = kernels.pointer_matmul(OTHER, TILE)
    assert isinstance(second.measure(right), Timed)
    assert second.release() is worker
    worker.close()


def test_a_worker_that_broke_is_not_left(crew: Crew, worker: Child) -> None:
    runner = Runner(WORKLOAD, H200, "cpu", timeout_s=8, child=worker)
    abort = kernels.MATMUL.replace(
        "    acc = tl.zeros", "    __import__('os').abort()\n    acc = tl.zeros"
    )
    assert isinstance(runner.measure(kernels.pointer_matmul(WORKLOAD, TILE, text=abort)), Failed)
    assert runner.release() is None


def test_a_worker_that_was_killed_at_work_is_not_left(worker: Child) -> None:
    runner = Runner(WORKLOAD, H200, "cpu", timeout_s=8, child=worker)
    runner.kill()
    assert runner.release() is None


def test_all_end_with_the_crew(worker: Child) -> None:
    crew = Crew(1)
    crew.leave(worker)
    pool: BuilderPool = crew.builders(60)
    crew.close()
    crew.close()
    assert not worker._alive
    with pytest.raises(RuntimeError, match="closed"):
        pool._submit(Build(program(), H200.triton_target))
