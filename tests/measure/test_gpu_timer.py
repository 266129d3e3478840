"""Host cost never shows in a time. The device is simulated: a queue, a clock, a host that lags."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from measure import gpu_timer
from measure.gpu_timer import BATCH, GpuTimer, HostTooSlow

FLUSH_US = 40.0


@dataclass
class Machine:
    """A host and a device with one queue. Times in microseconds."""

    host_us: float = 0.0
    free_us: float = 0.0
    started_us: list[float] = field(default_factory=list)

    def queue(self, device_us: float, host_us: float = 1.0) -> None:
        self.host_us += host_us
        self.free_us = max(self.free_us, self.host_us) + device_us

    def read(self, *_: object, **__: object) -> None:
        self.queue(FLUSH_US, 4.0)


@dataclass
class Event:
    machine: Machine
    at_us: float = 0.0

    def record(self) -> None:
        self.machine.host_us += 1.0
        self.at_us = max(self.machine.free_us, self.machine.host_us)

    def query(self) -> bool:
        self.machine.host_us += 1.0
        return self.machine.host_us >= self.at_us

    def synchronize(self) -> None:
        self.machine.host_us = max(self.machine.host_us, self.at_us)

    def elapsed_time(self, other: Event) -> float:
        return (other.at_us - self.at_us) / 1e3


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    simulated = Machine()
    torch = SimpleNamespace(
        zeros=lambda *_, **__: None,
        empty=lambda *_, **__: None,
        sum=simulated.read,
        float32=None,
        cuda=SimpleNamespace(
            Event=lambda enable_timing: Event(simulated),
            _sleep=lambda cycles: simulated.queue(cycles / 1000.0),
        ),
    )
    monkeypatch.setattr(gpu_timer, "torch", torch)
    clock = SimpleNamespace(perf_counter=lambda: simulated.host_us / 1e6)
    monkeypatch.setattr(gpu_timer, "time", clock)
    return simulated


@pytest.mark.parametrize("kernel_us", [5.0, 20.0, 200.0])
@pytest.mark.parametrize("host_us", [5.0, 35.0, 200.0])
def test_times_are_the_kernels_whatever_the_host_costs(
    machine: Machine, kernel_us: float, host_us: float
) -> None:
    timer = GpuTimer(50 << 20)
    samples = timer.samples_us(lambda: machine.queue(kernel_us, host_us), 150)
    assert samples == pytest.approx([kernel_us] * 150)


def test_a_host_that_is_held_up_spoils_no_sample(machine: Machine) -> None:
    rng = random.Random(0)
    timer = GpuTimer(50 << 20)

    def piece() -> None:
        machine.queue(5.0, 3000.0 if rng.random() < 0.05 else 10.0)

    dropped = 0
    for _ in range(40):
        times = timer.batch_us([piece] * BATCH)
        dropped += times.count(None)
        assert [t for t in times if t is not None] == pytest.approx(
            [5.0] * (BATCH - times.count(None))
        )
    assert dropped > 0
    assert timer.samples_us(piece, 100) == pytest.approx([5.0] * 100)


def test_a_host_that_is_never_ahead_is_given_up(machine: Machine) -> None:
    timer = GpuTimer(50 << 20)
    with pytest.raises(HostTooSlow, match="0 of 10 samples"):
        timer.samples_us(lambda: machine.queue(5.0, 1e6), 10)


def test_a_fast_host_costs_the_device_little(machine: Machine) -> None:
    timer = GpuTimer(50 << 20)
    timer.samples_us(lambda: machine.queue(100.0, 20.0), BATCH)
    begun = machine.free_us
    timer.samples_us(lambda: machine.queue(100.0, 20.0), BATCH)
    assert machine.free_us - begun <= BATCH * (FLUSH_US + 100.0) + 500.0


def test_different_pieces_keep_their_places(machine: Machine) -> None:
    timer = GpuTimer(50 << 20)
    pieces = [lambda us=us: machine.queue(us) for us in (5.0, 7.0, 9.0)]
    timer.batch_us(pieces)
    assert timer.batch_us(pieces) == pytest.approx([5.0, 7.0, 9.0])


def test_a_stretch_is_timed_as_a_whole_whatever_the_host_costs(machine: Machine) -> None:
    timer = GpuTimer(50 << 20)
    assert timer.stretch_us(lambda: machine.queue(95.0, 12.0), 32) == pytest.approx(32 * 95.0)
    assert timer.stretch_us(lambda: machine.queue(95.0, 60.0), 32) == pytest.approx(32 * 95.0)


def test_a_stretch_of_a_host_that_is_never_ahead_is_too_long(machine: Machine) -> None:
    timer = GpuTimer(50 << 20)
    assert timer.stretch_us(lambda: machine.queue(95.0, 1e6), 32) > 32 * 95.0
