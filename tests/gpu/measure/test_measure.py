"""A real GPU measures: host cost does not show, hostile kernels cost one candidate each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hand_kernels as kernels
import pytest
import torch
from click.testing import CliRunner

from autosched.cli.main import main
from measure import verify
from measure.crew import Crew
from measure.gpu_timer import GpuTimer
from measure.launch import Launcher
from measure.measurement import Failed, Failure, Timed, Timing
from measure.runner import Runner
from measure.service import open_service
from measure.timing import median_interval
from search_space import target as targets
from search_space.program import Program

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
H200 = targets.load("h200")
WORKLOAD = kernels.workload(512, 512, 512)
TILE = (64, 64, 32)
MATMUL = kernels.MATMUL


def program(text: str = MATMUL) -> Program:
    return kernels.pointer_matmul(WORKLOAD, TILE, text=text)


def wrong(old: str, new: str) -> Program:
    assert old in MATMUL
    return program(MATMUL.replace(old, new))


@pytest.fixture(scope="module")
def timer() -> GpuTimer:
    with torch.cuda.device(DEVICE):
        return GpuTimer(torch.cuda.get_device_properties(DEVICE).L2_cache_size)


def slowed(piece: Callable[[], None], host_us: float) -> Callable[[], None]:
    def run() -> None:
        until = time.perf_counter() + host_us / 1e6
        while time.perf_counter() < until:
            pass
        piece()

    return run


@pytest.mark.parametrize("size", [256, 1024, 4096])
def test_host_cost_does_not_show(timer: GpuTimer, size: int) -> None:
    w = kernels.workload(size, size, size)
    case = verify.random_case(w, 0, DEVICE)
    call = Launcher(kernels.descriptor_matmul(w, (64, 128, 64)), DEVICE).prepare(case.inputs)
    call.run()
    readings = {}
    for host_us in (0.0, 35.0, 200.0):
        samples = timer.samples_us(slowed(call.run, host_us), 100)
        readings[host_us] = median_interval(samples)
    print(size, readings)
    plain = readings[0.0][0]
    assert all(abs(middle - plain) <= 0.05 * plain + 0.5 for middle, _, _ in readings.values())


def test_an_empty_kernel_reads_a_few_microseconds(timer: GpuTimer) -> None:
    w = kernels.workload(16, 16, 16)
    text = kernels.HEAD + "def kernel(a, b, c):\n    pass\n"
    empty = kernels.with_source(kernels.pointer_matmul(w, (16, 16, 16)), text)
    call = Launcher(empty, DEVICE).prepare(verify.random_case(w, 0, DEVICE).inputs)
    samples = timer.samples_us(slowed(call.run, 200.0), 100)
    print("empty kernel", median_interval(samples))
    assert median_interval(samples)[0] < 10


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    running = Runner(WORKLOAD, H200, "cuda:0", timeout_s=10)
    yield running
    running.close()


def test_a_right_program_is_timed_with_evidence(runner: Runner) -> None:
    for make in (kernels.pointer_matmul, kernels.descriptor_matmul):
        timed = runner.measure(make(WORKLOAD, (64, 64, 64)))
        assert isinstance(timed, Timed), timed
        assert timed.evidence is not None
        assert timed.evidence.max_error <= 1
        assert timed.timing.low_us <= timed.latency_us <= timed.timing.high_us
        print(timed.latency_us, timed.run_s, timed.evidence)


def test_a_slow_program_is_given_up(runner: Runner) -> None:
    timed = runner.measure(program(), abort_above_us=0.5)
    assert isinstance(timed, Timed)
    assert len(timed.timing.samples_us) == 3


ENDLESS = (
    "    acc = tl.zeros",
    "    go = tl.load(a).to(tl.float32) * 0.0\n    while go < 1.0:\n"
    "        go = tl.load(a, volatile=True).to(tl.float32) * 0.0\n    acc = tl.zeros",
)
HOSTILE: dict[str, tuple[Program, Failure, str]] = {
    "no-op": (
        wrong(
            "(rm[:, None] < SM) & (rn[None, :] < SN))\n",
            "(rm[:, None] < 0) & (rn[None, :] < SN))\n",
        ),
        Failure.CORRECTNESS,
        "never written",
    ),
    "half written": (
        wrong(
            "(rm[:, None] < SM) & (rn[None, :] < SN))\n",
            "(rm[:, None] < SM) & (rn[None, :] < SN // 2))\n",
        ),
        Failure.CORRECTNESS,
        "never written",
    ),
    "NaN writer": (
        wrong("acc.to(OUT)", "(acc + float('nan')).to(OUT)"),
        Failure.CORRECTNESS,
        "NaN",
    ),
    "last block forgotten": (
        wrong("range(0, EK, BK)", "range(0, EK - BK, BK)"),
        Failure.CORRECTNESS,
        "times the tolerance",
    ),
    "accumulates in float16": (
        wrong(
            'acc, input_precision="ieee")',
            'acc, input_precision="ieee")\n        acc = acc.to(tl.float16).to(tl.float32)',
        ),
        Failure.CORRECTNESS,
        "times the tolerance",
    ),
    "beside the output": (
        wrong("tl.store(c + rm[:, None] * SN", "tl.store(c + 1 + rm[:, None] * SN"),
        Failure.CORRECTNESS,
        "outside its output",
    ),
    "changes its input": (
        wrong("    tl.store", "    tl.store(a + rm, tl.load(a + rm) + 1)\n    tl.store"),
        Failure.CORRECTNESS,
        "changed its inputs",
    ),
    "illegal address": (
        wrong("tl.store(c + rm[:, None] * SN", "tl.store(c + (1 << 44) + rm[:, None] * SN"),
        Failure.RUNTIME,
        "illegal memory access",
    ),
    "endless": (wrong(*ENDLESS), Failure.TIMEOUT, "more than 10 s"),
    "does not compile": (program("def kernel(a, b, c):\n    undefined(a)\n"), Failure.COMPILE, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_kernels_cost_one_candidate(runner: Runner, name: str) -> None:
    hostile, kind, said = HOSTILE[name]
    failed = runner.measure(hostile)
    print(name, failed)
    assert isinstance(failed, Failed), failed
    assert failed.kind is kind
    assert said in failed.detail
    begun = time.monotonic()
    assert isinstance(runner.measure(program()), Timed)
    assert time.monotonic() - begun < 30


def test_compare_with_the_library(runner: Runner) -> None:
    crash, _, _ = HOSTILE["illegal address"]
    entrants = [
        program(),
        kernels.descriptor_matmul(WORKLOAD, (64, 64, 64)),
        kernels.pointer_matmul(WORKLOAD, (128, 128, 32)),
        crash,
    ]
    result = runner.compare(entrants, library=True, rounds=50, seeds=(10, 11, 12))
    print(result)
    assert [type(e) for e in result.entrants] == [Timing, Timing, Timing, Failed]
    assert isinstance(result.library, Timing)
    assert result.best in (0, 1, 2)
    assert result.best == result.ties[0]
    assert all(r is not None for r in result.ratios[:3])


def test_two_names_of_one_kernel_are_a_tie(runner: Runner) -> None:
    names = [program(f"{MATMUL}    # {n}\n") for n in range(6)]
    result = runner.compare(names, library=False, rounds=60, seeds=(20, 21, 22))
    print(result.ties, [e.latency_us for e in result.entrants if isinstance(e, Timing)])
    assert len(result.ties) >= 5


def test_a_service_reaches_its_rate() -> None:
    w = kernels.workload(4096, 4096, 4096)
    tiles = [(m, n, k) for m in (64, 128) for n in (64, 128, 256) for k in (32, 64)]
    programs = [kernels.descriptor_matmul(w, tile) for tile in tiles]
    with open_service(w, H200, "cuda:0", timeout_s=60) as service:
        print(service.device)
        begun = time.monotonic()
        results = service.submit(programs).results(300)
        took_s = time.monotonic() - begun
        comparison = service.compare(programs[:3], library=True)
    timed = [r for r in results if isinstance(r, Timed)]
    print(f"{len(programs) / took_s:.1f} a second; run {[round(r.run_s, 3) for r in timed]}")
    print("built in", [round(r.build_s, 2) for r in timed])
    print(comparison.ratios, comparison.library)
    assert len(timed) >= len(programs) - 2
    assert service.device.kind == "cuda"
    assert service.device.gpu_name


def test_workloads_take_turns_at_one_worker() -> None:
    sizes = (512, 1024, 2048, 4096)
    loads = [kernels.workload(size, size, size) for size in sizes]
    with Crew() as crew:
        seat = crew.seat("cuda:0")
        runners = [Runner(w, H200, "cuda:0", timeout_s=20, seat=seat) for w in loads]
        worker, switching_s, times_us = seat.worker, [], []
        for _ in range(3):
            for runner, w in zip(runners, loads, strict=True):
                begun = time.monotonic()
                timed = runner.measure(kernels.descriptor_matmul(w, (64, 64, 64)))
                assert isinstance(timed, Timed), timed
                assert not timed.quarantined
                switching_s.append(time.monotonic() - begun - timed.run_s)
                times_us.append(timed.latency_us)
        assert seat.worker is worker
        print("seconds beside the run", [round(s, 3) for s in switching_s])
        for size, *readings in zip(sizes, times_us[:4], times_us[4:8], times_us[8:], strict=True):
            print(size, readings)
            assert max(readings) <= 1.1 * min(readings)
        for runner in runners:
            runner.close()


def test_a_suite_in_turns_on_a_gpu(tmp_path: Path) -> None:
    log = tmp_path / "tuned.jsonl"
    specs = [f"matmul:m={m},n=1024,k=1024,dtype=float16" for m in (512, 1024, 16)]
    options = ["--total-trials", "96", "--effort", "quick", "-o", str(log), "-f", "json"]
    result = CliRunner().invoke(main, ["tune", *specs, *options])
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(row["trials"] for row in rows) == 96
    assert all(row["best"]["ratio"] for row in rows)
    replayed = CliRunner().invoke(main, ["replay", str(log)])
    print(replayed.stdout)
    assert replayed.exit_code == 0
