"""Processes serve one workload after another; what broke, or was killed at work, is replaced."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import hand_kernels as kernels
import pytest

from measure.builder import BuilderPool
from measure.crew import Crew
from measure.cuda_device import CudaDevice
from measure.job import Build, Built
from measure.measurement import Failed, Measurement, Timed
from measure.model_device import ModelDevice
from measure.pipeline import Closed
from measure.runner import Runner
from measure.service import NoDevice
from search_space import target as targets
from search_space.program import Program
from search_space.workload import Workload

H200 = targets.load("h200")
WORKLOAD, OTHER = kernels.workload(16, 32, 48), kernels.workload(32, 32, 32)
TILE = (16, 32, 16)


def program(number: int = 0) -> Program:
    return kernels.pointer_matmul(WORKLOAD, TILE, text=f"{kernels.MATMUL}    # {number}\n")


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with Crew(1, "cpu_worker") as crew:
        yield crew


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


def of_other(number: int = 0) -> Program:
    return kernels.pointer_matmul(OTHER, TILE, text=f"{kernels.MATMUL}    # {number}\n")


def aborting() -> Program:
    abort = kernels.MATMUL.replace(
        "    acc = tl.zeros", "    __import__('os').abort()\n    acc = tl.zeros"
    )
    return kernels.pointer_matmul(WORKLOAD, TILE, text=abort)


def test_a_worker_takes_the_next_workload_and_the_gpu_is_free_in_between(
    crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPU_WORKER_UUID", "GPU-7")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def is_free() -> bool:
        with (tmp_path / "autosched" / "gpu-GPU-7.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    seat = crew.seat("cpu")
    worker = seat.worker
    first = Runner(WORKLOAD, H200, "cpu", timeout_s=8, seat=seat)
    assert isinstance(first.measure(program()), Timed)
    first.close()
    assert is_free()
    second = Runner(OTHER, H200, "cpu", timeout_s=8, seat=crew.seat("cpu"))
    third = Runner(WORKLOAD, H200, "cpu", timeout_s=8, seat=crew.seat("cpu"))
    assert isinstance(second.measure(of_other()), Timed)
    second.close()
    second.close()
    assert not is_free()
    third.close()
    assert is_free()
    assert seat.worker is worker


def test_two_workloads_take_turns_at_one_worker_and_at_the_next(crew: Crew) -> None:
    seat = crew.seat("cpu")
    first = Runner(WORKLOAD, H200, "cpu", timeout_s=8, seat=seat)
    second = Runner(OTHER, H200, "cpu", timeout_s=8, seat=seat)
    worker = seat.worker
    for number in range(2):
        assert isinstance(first.measure(program(number)), Timed)
        assert isinstance(second.measure(of_other(number)), Timed)
    assert seat.worker is worker
    assert isinstance(first.measure(aborting()), Failed)
    assert seat.worker is None
    # Both are given their own data again.
    assert isinstance(second.measure(of_other(3)), Timed)
    assert isinstance(first.measure(program(3)), Timed)
    second.close()
    assert isinstance(first.measure(program(4)), Timed)
    first.close()


def test_who_is_not_at_work_kills_nobody(crew: Crew) -> None:
    seat = crew.seat("cpu")
    first = Runner(WORKLOAD, H200, "cpu", timeout_s=60, seat=seat)
    second = Runner(OTHER, H200, "cpu", timeout_s=60, seat=seat)
    endless = kernels.MATMUL.replace(
        "    acc = tl.zeros", "    __import__('time').sleep(50)\n    acc = tl.zeros"
    )
    outcomes: list[Measurement] = []
    program_ = kernels.pointer_matmul(WORKLOAD, TILE, text=endless)
    thread = threading.Thread(target=lambda: outcomes.append(first.measure(program_)))
    thread.start()
    while seat._asking is None:
        time.sleep(0.01)
    worker = seat.worker
    second.kill()
    assert worker is not None
    assert worker._process.poll() is None
    first.kill()
    thread.join(20)
    assert [type(outcome) for outcome in outcomes] == [Failed]
    assert seat.worker is None
    with pytest.raises(NoDevice, match="it was closed"):
        first.measure(program())
    first.close()
    second.close()


def test_all_end_with_the_crew(crew: Crew) -> None:
    worker = crew.seat("cpu").worker
    pool: BuilderPool = crew.builders(60)
    crew.close()
    crew.close()
    assert worker is not None
    assert not worker._alive
    with pytest.raises(RuntimeError, match="closed"):
        pool._submit(Build(program(), H200.triton_target))


def test_two_devices_measure_by_turns_at_one_worker(crew: Crew) -> None:
    def opened(workload: Workload) -> CudaDevice:
        return CudaDevice(workload, H200, "cpu", timeout_s=20, crew=crew)

    with opened(WORKLOAD) as first, opened(OTHER) as second:
        worker = crew.seat("cpu").worker
        pending = [first.submit([program(1), aborting()]), second.submit([of_other(1)])]
        pending += [first.submit([program(2)]), second.submit([of_other(2)])]
        found = [type(result) for each in pending for result in each.results(120)]
        assert found == [Timed, Failed, Timed, Timed, Timed]
        assert crew.seat("cpu").worker is worker
        compared = second.compare([of_other(1), of_other(2)], library=False, rounds=3)
        assert compared.best is not None
        left = first.submit([program(n) for n in range(3, 9)])
        first.drop()
        with pytest.raises(Closed):
            left.results(30)
        assert isinstance(first.submit([program(1)]).results(30)[0], Timed)
