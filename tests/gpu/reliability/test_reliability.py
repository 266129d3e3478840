"""Hostile programs, aliases, neighbours on the GPU and host cost: what is promised, shown."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import gpu_work
import hand_kernels as kernels
import pytest
import torch

from measure import verify
from measure.builder import BuilderPool
from measure.gpu_timer import GpuTimer
from measure.guard import Guard
from measure.job import Open
from measure.launch import Launcher
from measure.measurement import Failed, Failure, Measurement, Timed, Timing
from measure.runner import Runner
from measure.session import Session
from measure.timing import median_interval

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DRY = gpu_work.DRY
needs_gpu = pytest.mark.skipif(DRY, reason="nothing of it can be rehearsed without a GPU")
Figure = Callable[..., None]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    running = gpu_work.open_runner()
    yield running
    running.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[BuilderPool]:
    with BuilderPool(2, timeout_s=60) as running:
        yield running


@pytest.mark.parametrize("name", gpu_work.HOSTILE)
def test_hostile(runner: Runner, pool: BuilderPool, figure: Figure, name: str) -> None:
    candidate = gpu_work.HOSTILE[name]
    compiling = candidate.kind is Failure.COMPILE
    target = gpu_work.H200.triton_target

    def attempt(program: Any) -> Any:
        return pool.build(program, target) if compiling else runner.measure(program)

    begun = time.monotonic()
    failed = attempt(candidate.program)
    failed_s = time.monotonic() - begun
    next_one = attempt(gpu_work.GOOD)
    healthy_s = time.monotonic() - begun - failed_s
    figure(
        "hostile",
        candidate=name,
        kind=failed.kind.value if isinstance(failed, Failed) else "none",
        cause=failed.cause.value if isinstance(failed, Failed) else "none",
        said=failed.detail[:120] if isinstance(failed, Failed) else "",
        failed_s=round(failed_s, 2),
        next_healthy=not isinstance(next_one, Failed),
        next_s=round(healthy_s, 2),
    )
    assert isinstance(failed, Failed), failed
    assert (failed.kind, failed.cause) == (candidate.kind, candidate.cause), failed.detail
    assert not isinstance(next_one, Failed)
    assert healthy_s < 30
    assert failed_s < gpu_work.TIMEOUT_S + 5 + (10 if DRY else 0)


def test_one_kernel_under_200_names(figure: Figure) -> None:
    count, trials, entrants = (10, 3, 4) if DRY else (200, 40, 8)
    aliases = [gpu_work.alias(n) for n in range(count)]
    rng = random.Random(0)
    claims, gains = 0, []
    begun = time.monotonic()
    with gpu_work.open_gpu() as service:
        results = service.submit(aliases).results(240)
        timed = [r for r in results if isinstance(r, Timed)]
        submitted_s = time.monotonic() - begun
        for _ in range(trials):
            chosen = rng.sample(aliases, entrants)
            comparison = service.compare(chosen, library=False, rounds=50)
            times_us = [e.latency_us for e in comparison.entrants if isinstance(e, Timing)]
            apart = len(comparison.ties) < len(chosen)
            claims += apart
            gains.append(max(times_us) / min(times_us) - 1 if apart else 0.0)
    times_us = sorted(r.latency_us for r in timed)
    figure(
        "one kernel under many names",
        names=count,
        timed=len(timed),
        median_us=median(times_us),
        least_us=times_us[0],
        largest_us=times_us[-1],
        comparisons=trials,
        entrants_each=entrants,
        claimed_gains=claims,
        largest_claim_percent=round(100 * max(gains), 2),
        retaken=sum(bool(r.conditions and r.conditions.retakes) for r in timed),
        quarantined=sum(r.quarantined for r in timed),
        submit_s=round(submitted_s, 1),
    )
    assert len(timed) == count
    # With claims in 5 of 100, more than 5 in 40 have a probability of 1.4 %.
    assert claims <= max(5, trials // 8)


@contextmanager
def burner() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(HERE / "burner.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _troubled(measurement: Measurement) -> str:
    if isinstance(measurement, Failed):
        return f"failed: {measurement.detail}"
    seen = measurement.conditions
    assert seen is not None
    if seen.trouble:
        return seen.trouble
    return f"retaken {seen.retakes} times" if seen.retakes else ""


def _spell(runner: Runner, seconds: float) -> list[tuple[float, str, float]]:
    """Measure for a while: when each was done, what troubled it, its time in microseconds."""
    until, rows = time.time() + seconds, []
    while time.time() < until:
        measured = runner.measure(gpu_work.GOOD)
        us = measured.latency_us if isinstance(measured, Timed) else math.inf
        rows.append((time.time(), _troubled(measured), us))
    return rows


def test_a_burner_that_comes_is_noticed_and_forgotten(runner: Runner, figure: Figure) -> None:
    before = _spell(runner, 2.0)
    with burner() as process:
        said: list[str] = []
        listener = threading.Thread(target=lambda: said.append(process.stdout.readline()))  # type: ignore[union-attr]
        listener.start()
        beside: list[tuple[float, str, float]] = []
        until = time.time() + 40
        while time.time() < until and (not said or time.time() < float(said[0] or 0) + 4.0):
            beside += _spell(runner, 0.2)
    listener.join()
    assert said[0], "the burner did not begin"
    began_s = float(said[0])
    process.wait()
    time.sleep(0.5)
    after = _spell(runner, 3.0)
    working = [row for row in beside if row[0] > began_s]
    noticed = [row for row in working if row[1]]
    calm_again = next((at for at, trouble, _ in after if not trouble), None)
    figure(
        "burner beside a run",
        before=len(before),
        before_troubled=sum(bool(t) for _, t, _ in before),
        beside=len(working),
        beside_troubled=len(noticed),
        noticed_after_s=round(noticed[0][0] - began_s, 3) if noticed else None,
        noticed_before_it_worked=sum(bool(t) for at, t, _ in beside if at <= began_s),
        said=sorted({t for _, t, _ in noticed if not t.startswith("retaken")})[:4],
        after=len(after),
        after_troubled=sum(bool(t) for _, t, _ in after),
        calm_again_after_s=round(calm_again - after[0][0], 2) if calm_again else None,
        before_us=median(us for _, _, us in before),
        beside_us=median(us for _, _, us in working),
        per_s_before=round(len(before) / 2.0, 1),
        per_s_beside=round(len(working) / 4.0, 1),
    )
    assert noticed or DRY, "no candidate beside the burner was retaken or quarantined"
    assert calm_again is not None, "the device never was calm again"
    assert sum(bool(t) for _, t, _ in before) <= len(before) // 4


def test_a_burner_that_was_there_first_is_noticed(figure: Figure) -> None:
    with burner() as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        running = gpu_work.open_runner()
        try:
            rows = _spell(running, 2.0)
        finally:
            running.close()
    noticed = [trouble for _, trouble, _ in rows if trouble]
    figure(
        "burner before a run",
        beside=len(rows),
        beside_troubled=len(noticed),
        said=sorted({t for t in noticed if not t.startswith("retaken")})[:4],
    )
    assert DRY or len(noticed) >= len(rows) // 2


def _tuner(count: int, wait_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "second_tuner.py"), str(count), str(wait_s)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _events(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    out, _ = process.communicate(timeout=150)
    assert process.returncode == 0, out
    return {event["event"]: event for event in map(json.loads, out.splitlines())}


def test_two_tuners_at_once_take_turns(runner: Runner, figure: Figure) -> None:
    refused = _events(_tuner(1, 1.0))
    runner.close()
    tuners = [_events(t) for t in [_tuner(20, 120.0), _tuner(20, 120.0)]]
    first, second = sorted(tuners, key=lambda events: events["open"]["at_s"])
    figure(
        "two tuners at once",
        refused_while_held="busy" in refused,
        refusal=refused.get("busy", {}).get("waited", [""])[0],
        first_held_s=round(first["done"]["at_s"] - first["open"]["at_s"], 2),
        second_waited_s=round(second["open"]["at_s"] - second["start"]["at_s"], 2),
        second_said=second["open"]["waited"][:1],
        apart_s=round(second["open"]["at_s"] - first["done"]["at_s"], 2),
        timed=[events["done"]["results"].count("Timed") for events in (first, second)],
    )
    assert "busy" in refused
    assert second["open"]["at_s"] > first["done"]["at_s"]
    assert second["open"]["waited"]
    assert all(events["done"]["results"] == ["Timed"] * 20 for events in tuners)


def slowed(piece: Callable[[], None], host_us: float) -> Callable[[], None]:
    def run() -> None:
        until = time.perf_counter() + host_us / 1e6
        while time.perf_counter() < until:
            pass
        piece()

    return run


@needs_gpu
@pytest.mark.parametrize(
    ("about_us", "shape"),
    [(5, (256, 256, 256)), (20, (1536, 1536, 1024)), (200, (4096, 4096, 4096))],
)
def test_host_cost_does_not_show(figure: Figure, about_us: int, shape: tuple[int, ...]) -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    timer = GpuTimer(torch.cuda.get_device_properties(device).L2_cache_size)
    w = kernels.workload(*shape)
    case = verify.random_case(w, 0, device)
    call = Launcher(kernels.descriptor_matmul(w, (64, 128, 64)), device).prepare(case.inputs)
    readings = {}
    for _ in range(15):
        # Heat is shared out over all of them.
        for host_us in (0.0, 5.0, 35.0, 200.0):
            samples = timer.samples_us(slowed(call.run, host_us), 12)
            readings.setdefault(host_us, []).extend(samples)
    rows = {host_us: median_interval(samples) for host_us, samples in readings.items()}
    plain = rows[0.0][0]
    for host_us, (middle, low, high) in rows.items():
        figure(
            "host cost",
            kernel=f"matmul {'x'.join(map(str, shape))}, about {about_us} us",
            host_us=host_us,
            reading_us=round(middle, 3),
            low_us=round(low, 3),
            high_us=round(high, 3),
            off_percent=round(100 * (middle / plain - 1), 2),
        )
    assert all(abs(middle - plain) <= 0.05 * plain + 0.5 for middle, _, _ in rows.values())


@needs_gpu
def test_watching_the_device_costs_little(figure: Figure) -> None:
    session = Session(Open(gpu_work.WORKLOAD, gpu_work.H200, "cuda:0", (0, 1)))
    session.measure(gpu_work.GOOD, None)
    watching, blind = session.guard, Guard(None)
    taken: dict[str, list[float]] = {"watched": [], "not watched": []}
    spent_s, watched = watching.spent_s, watching.watched
    for _ in range(60):
        for name, guard in (("watched", watching), ("not watched", blind)):
            session.guard = guard
            taken[name].append(session.measure(gpu_work.GOOD, None).run_s)
    each_ms = 1e3 * (watching.spent_s - spent_s) / (watching.watched - watched)
    begun = time.perf_counter()
    for _ in range(20):
        watching._reading()
    reading_ms = (time.perf_counter() - begun) * 1e3 / 20
    begun = time.perf_counter()
    assert watching._watch is not None
    there = watching._watch.processes()
    processes_ms = (time.perf_counter() - begun) * 1e3
    begun = time.perf_counter()
    shares = watching._watch.working()
    working_ms = (time.perf_counter() - begun) * 1e3
    begun = time.perf_counter()
    assert watching._anchor_us is not None
    anchor_us = watching._anchor_us()
    anchor_ms = (time.perf_counter() - begun) * 1e3
    figure(
        "cost of watching",
        each_ms=round(each_ms, 3),
        watched_ms=round(1e3 * median(taken["watched"]), 3),
        not_watched_ms=round(1e3 * median(taken["not watched"]), 3),
        reading_ms=round(reading_ms, 3),
        processes_ms=round(processes_ms, 3),
        working_ms=round(working_ms, 3),
        anchor_ms=round(anchor_ms, 3),
        anchor_us=round(anchor_us, 1),
        anchor_expected_us=round(watching._least_us, 1),
        reading=str(watching._after),
        processes_seen=len(there),
        own_ids=len(watching._ours),
        own_id_is_pid=os.getpid() in watching._ours,
        working_seen=len(shares),
    )
    assert each_ms < 1.0


def _probe(root: Path, device: str, count: int, size: int) -> dict[str, Any]:
    path = os.pathsep.join([str(root), str(root / "tests" / "measure")])
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": cache}
        command = [sys.executable, str(HERE / "throughput_probe.py"), device, str(count), str(size)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=150, cwd=root
        )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_throughput(figure: Figure) -> None:
    """AUTOSCHED_BEFORE names a folder with an older tree, to be asked on the same machine."""
    device, count, size = ("model", 4, 256) if DRY else ("cuda:0", 64, 1024)
    roots = {"now": ROOT}
    if before := os.environ.get("AUTOSCHED_BEFORE"):
        roots = {"before": Path(before).resolve(), **roots}
    for name, root in roots.items():
        found = _probe(root, device, count, size)
        figure("throughput, cold cache", tree=name, **found)
        assert found["timed"] >= count * 0.9
