"""Builds and measuring overlap, duplicates are measured once, results keep their order."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import hand_kernels as kernels
import pytest
import torch

from measure.fake_device import FakeDevice
from measure.job import Build, Built, TritonTarget
from measure.measurement import CompiledFacts, Failed, Failure, Measurement, Timed, Timing
from measure.model_device import noisy
from measure.pipeline import Closed, Pipeline
from measure.service import NoDevice, Pending, Service, open_service
from search_space import target as targets
from search_space.program import Program

H200 = targets.load("h200")
WORKLOAD = kernels.workload(128, 128, 128)
FACTS = CompiledFacts(64, 0, 1024, 4096)


def program(number: int) -> Program:
    return kernels.pointer_matmul(WORKLOAD, text=f"{kernels.MATMUL}    # {number}\n")


def number_of(a_program: Program) -> int:
    return int(a_program.source.rsplit("#", 1)[1])


class HandPool:
    """A builder pool whose builds end when the test says so."""

    def __init__(self) -> None:
        self.futures: dict[int, Future[Built | Failed]] = {}

    def submit(self, a_program: Program, target: TritonTarget) -> Future[Built | Failed]:
        future: Future[Built | Failed] = Future()
        self.futures[number_of(a_program)] = future
        return future

    def finish(self, number: int) -> None:
        self.futures[number].set_result(Built(FACTS, 0.5, str(number)))

    def close(self) -> None:
        for future in self.futures.values():
            future.cancel()


@pytest.fixture
def pool() -> HandPool:
    return HandPool()


@pytest.fixture
def measured() -> list[int]:
    return []


@pytest.fixture
def pipeline(pool: HandPool, measured: list[int]) -> Iterator[Pipeline]:
    def measure(a_program: Program, built: Built, abort_above_us: float | None) -> Measurement:
        number = number_of(a_program)
        measured.append(number)
        if number == 13:
            raise RuntimeError("a fault of ours")
        us = float(number)
        return Timed(Timing(us, us, us, (us,)), None, None, 0.0, 0.0)

    running = Pipeline(pool, H200.triton_target, measure)  # type: ignore[arg-type]
    yield running
    running.close()


def times(pending: Pending) -> list[float]:
    return [m.latency_us for m in pending.results(30) if isinstance(m, Timed)]


def test_measuring_follows_builds_and_results_keep_their_order(
    pipeline: Pipeline, pool: HandPool, measured: list[int]
) -> None:
    seen: list[int] = []
    pending = pipeline.submit([program(n) for n in (1, 2, 3)], None, lambda n, _: seen.append(n))
    assert not pending.done
    for number in (3, 1, 2):
        pool.finish(number)
    assert times(pending) == [1, 2, 3]
    assert measured == [3, 1, 2]
    assert seen == [2, 0, 1]
    assert all(m.facts == FACTS and m.build_s == 0.5 for m in pending.results())


def test_two_batches_may_be_pending(pipeline: Pipeline, pool: HandPool) -> None:
    first = pipeline.submit([program(1)], None, None)
    second = pipeline.submit([program(2)], None, None)
    pool.finish(2)
    assert times(second) == [2]
    assert not first.done
    pool.finish(1)
    assert times(first) == [1]


def test_duplicates_are_measured_once(
    pipeline: Pipeline, pool: HandPool, measured: list[int]
) -> None:
    first = pipeline.submit([program(1), program(2), program(1)], None, None)
    waiting = pipeline.submit([program(1)], None, None)
    pool.finish(1)
    pool.finish(2)
    assert times(first) == [1, 2, 1]
    assert times(waiting) == [1]
    assert times(pipeline.submit([program(2), program(1)], None, None)) == [2, 1]
    assert sorted(measured) == [1, 2]


def test_a_failed_build_is_a_result(pipeline: Pipeline, pool: HandPool) -> None:
    pending = pipeline.submit([program(1), program(2)], None, None)
    failed = Failed(Failure.COMPILE, "no")
    pool.futures[1].set_result(failed)
    pool.finish(2)
    assert pending.results(30)[0] == failed


def test_a_fault_of_ours_is_raised_where_results_are_asked_for(
    pipeline: Pipeline, pool: HandPool
) -> None:
    pending = pipeline.submit([program(13)], None, None)
    pool.finish(13)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        pending.results(30)
    after = pipeline.submit([program(1)], None, None)
    pool.finish(1)
    assert times(after) == [1]


def test_an_error_of_the_listener_is_raised(pipeline: Pipeline, pool: HandPool) -> None:
    def listener(index: int, measurement: Measurement) -> None:
        raise OSError("disk full")

    pending = pipeline.submit([program(1)], None, listener)
    pool.finish(1)
    with pytest.raises(OSError, match="disk full"):
        pending.results(30)


def test_closing_ends_what_is_pending(pipeline: Pipeline) -> None:
    pending = pipeline.submit([program(1)], None, None)
    pipeline.close()
    with pytest.raises(Closed):
        pending.results(30)
    with pytest.raises(Closed):
        pipeline.submit([program(2)], None, None)


def test_what_is_dropped_is_measured_for_nobody(
    pipeline: Pipeline, pool: HandPool, measured: list[int]
) -> None:
    pending = pipeline.submit([program(1), program(2)], None, None)
    dropped = pool.futures[1]
    pipeline.drop()
    with pytest.raises(Closed):
        pending.results(30)
    assert dropped.cancelled()
    again = pipeline.submit([program(1), program(3)], None, None)
    pool.finish(3)
    pool.finish(1)
    assert times(again) == [1, 3]
    assert measured == [3, 1]


def test_actions_run_in_the_measuring_thread(pipeline: Pipeline) -> None:
    names: list[str] = []
    pipeline.run(lambda: names.append(threading.current_thread().name))
    assert names == ["measure"]
    with pytest.raises(ZeroDivisionError):
        pipeline.run(lambda: names.append(str(1 // 0)))


@pytest.fixture(scope="module")
def model() -> Iterator[Service]:
    with open_service(
        WORKLOAD, H200, "model", predict=lambda p: 10.0 + number_of(p), workers=1, timeout_s=60
    ) as service:
        yield service


def test_the_model_device_compiles_for_real_and_predicts(model: Service) -> None:
    broken = kernels.with_source(program(7), "def kernel(a, b, c:\n")
    good, bad, same = model.submit([program(1), broken, program(1)]).results(120)
    assert isinstance(good, Timed)
    assert (good.latency_us, good.predicted, good.evidence) == (11.0, True, None)
    assert good.facts is not None
    assert good.facts.registers > 0
    assert isinstance(bad, Failed)
    assert bad.kind is Failure.COMPILE
    assert same == good
    assert (model.device.kind, model.device.gpu_name, model.device.target_name) == (
        "model",
        "",
        "h200",
    )


def test_the_model_device_knows_the_limits_of_its_target(model: Service) -> None:
    long = kernels.workload(128, 128, 2048)
    base = kernels.descriptor_matmul(long, (64, 64, 256))
    deep = replace(base, kernels=(replace(base.kernels[0], stages=5),))
    (result,) = model.submit([deep]).results(120)
    assert isinstance(result, Failed)
    assert result.kind is Failure.CONSTRAINTS
    assert result.detail.startswith("shared memory: ")


def test_the_model_device_compares(model: Service) -> None:
    result = model.compare([program(3), program(2)], library=True)
    assert (result.best, result.ties, result.library) == (1, (1,), None)


def test_unknown_devices_are_named() -> None:
    with pytest.raises(NoDevice, match="'tpu' is not known; known: cuda"):
        open_service(WORKLOAD, H200, "tpu")
    with pytest.raises(NoDevice, match="prediction"):
        open_service(WORKLOAD, H200, "model")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_no_device() -> None:
    with pytest.raises(NoDevice, match="cuda: "):
        open_service(WORKLOAD, H200, "cuda", workers=1)


def test_noise_is_the_same_for_the_same_program() -> None:
    noised = noisy(lambda _: 100.0, random.Random(4))
    values = [noised(program(n)) for n in range(20)]
    assert values == [noised(program(n)) for n in range(20)]
    assert len(set(values)) == 20
    assert all(90 < v < 110 for v in values)


def test_the_fake_device_is_a_service() -> None:
    failed = Failed(Failure.RUNTIME, "planted")
    with FakeDevice(lambda p: failed if number_of(p) == 2 else 5.0, library_us=10.0) as fake:
        service: Service = fake
        seen: list[int] = []
        results = service.submit(
            [program(1), program(2), program(1)], on_result=lambda n, _: seen.append(n)
        ).results()
        assert [type(r) for r in results] == [Timed, Failed, Timed]
        assert (seen, fake.measured) == ([0, 1, 2], 2)
        comparison = service.compare([program(1), program(2)], library=True)
        assert (comparison.best, comparison.entrants[1]) == (0, failed)
        assert comparison.ratios[0] is not None
        assert comparison.ratios[0].median == 2.0


def test_requests_name_their_program() -> None:
    request = Build(program(1), H200.triton_target)
    assert request.program.fingerprint == program(1).fingerprint
