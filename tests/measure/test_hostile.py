"""Every kind of broken program comes to its exact failure, and the next program is healthy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hand_kernels as kernels
import hostile_kernels as hostile
import pytest

from measure.builder import BuilderPool
from measure.job import Built
from measure.measurement import Failed, Failure, Timed
from measure.runner import Runner
from search_space import target as targets

H200 = targets.load("h200")
WORKLOAD = kernels.workload(32, 64, 48)
TILE = (16, 32, 16)
GOOD = kernels.pointer_matmul(WORKLOAD, TILE)
CANDIDATES = {
    name: candidate
    for name, candidate in hostile.all_of(WORKLOAD, TILE).items()
    if not candidate.gpu
}
IN_WORKER = sorted(n for n, c in CANDIDATES.items() if c.kind is not Failure.COMPILE)
IN_COMPILER = sorted(n for n, c in CANDIDATES.items() if c.kind is Failure.COMPILE)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setenv("OMP_NUM_THREADS", "1")
        running = Runner(WORKLOAD, H200, "cpu", timeout_s=60, module="cpu_worker")
        yield running
        running.close()


@pytest.mark.parametrize("name", IN_WORKER)
def test_what_runs_costs_one_candidate(runner: Runner, name: str) -> None:
    candidate = CANDIDATES[name]
    failed = runner.measure(candidate.program)
    assert isinstance(failed, Failed), failed
    assert (failed.kind, failed.cause) == (candidate.kind, candidate.cause), failed.detail
    assert isinstance(runner.measure(GOOD), Timed)


def test_a_program_that_goes_wrong_after_hundreds_of_launches_passes(runner: Runner) -> None:
    # What the gate does not see: an error that begins after more launches than it makes.
    late = hostile.counting(WORKLOAD, TILE, 1000)
    assert isinstance(runner.measure(late), Timed)


@pytest.fixture(scope="module")
def pool() -> Iterator[BuilderPool]:
    with BuilderPool(1, timeout_s=60) as running:
        yield running


@pytest.mark.parametrize("name", IN_COMPILER)
def test_what_compiles_costs_one_candidate(pool: BuilderPool, name: str) -> None:
    candidate = CANDIDATES[name]
    failed = pool.build(candidate.program, H200.triton_target)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.cause) == (candidate.kind, candidate.cause), failed.detail
    assert isinstance(pool.build(GOOD, H200.triton_target), Built)
