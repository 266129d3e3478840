"""A disturbed device is noticed, its times are taken again, and quarantined where that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from measure.guard import ANCHOR_EVERY_S, PROCESSES_EVERY_S, RETAKES, SHARED, Guard
from measure.measurement import Conditions
from measure.nvml import IDLE, POWER_CAP, GpuWatch, Reading, own_ids

OURS = 100


@dataclass
class Machine:
    """A device with a clock that a test turns. Every sample takes 10 ms."""

    now_s: float = 0.0
    clock_mhz: int = 1980
    reasons: int = 0
    there: frozenset[int] = frozenset({OURS})
    shares: dict[int, int] = field(default_factory=lambda: {OURS: 90})
    anchor_us: float = 3000.0
    samples: int = 0
    readings: int = 0
    looks: int = 0
    anchors: int = 0
    #: Called while a sample is taken, by its number from 1.
    during: Callable[[int], None] = lambda _: None

    def reading(self) -> Reading:
        self.readings += 1
        return Reading(self.clock_mhz, self.reasons)

    def processes(self) -> frozenset[int]:
        self.looks += 1
        return self.there

    def working(self) -> Mapping[int, int]:
        return self.shares

    def anchor(self) -> float:
        self.anchors += 1
        return self.anchor_us

    def sample(self) -> int:
        self.samples += 1
        self.now_s += 0.01
        self.during(self.samples)
        return self.samples

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def guard(self, *, ours: frozenset[int] = frozenset({OURS}), expected_us: float = 3e3) -> Guard:
        return Guard(
            self,
            self.anchor,
            ours=ours,
            expected_us=expected_us,
            clock=lambda: self.now_s,
            pause=self.pause,
        )


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_calm_device_is_timed_once(machine: Machine) -> None:
    taken, conditions = machine.guard().watch(machine.sample)
    assert taken == 1
    assert conditions == Conditions(1980, 1.0, 0, "")


def test_looking_is_rationed(machine: Machine) -> None:
    guard = machine.guard()
    for _ in range(200):
        guard.watch(machine.sample)
    passed_s = machine.now_s
    assert machine.samples == 200
    # One reading for every sample: the last one stands for the time before the next.
    assert machine.readings == 201
    assert machine.anchors == pytest.approx(passed_s / ANCHOR_EVERY_S, abs=2)
    assert machine.looks == pytest.approx(passed_s / PROCESSES_EVERY_S, abs=2)


@pytest.mark.parametrize("bit", [0x08, 0x20, 0x40, 0x80])
def test_a_throttle_is_taken_again_and_then_quarantined(machine: Machine, bit: int) -> None:
    machine.reasons = bit | POWER_CAP
    taken, conditions = machine.guard().watch(machine.sample)
    assert (taken, conditions.retakes) == (RETAKES + 1, RETAKES)
    assert conditions.trouble.startswith("the clock is held down: ")


@pytest.mark.parametrize("reasons", [0, IDLE, 0x02, POWER_CAP, 0x10, 0x100])
def test_what_holds_the_clock_of_a_healthy_device_is_no_trouble(
    machine: Machine, reasons: int
) -> None:
    machine.reasons = reasons
    _, conditions = machine.guard().watch(machine.sample)
    assert (conditions.retakes, conditions.trouble) == (0, "")


def test_a_clock_that_moved_once_costs_one_retake(machine: Machine) -> None:
    def during(sample: int) -> None:
        machine.clock_mhz = 1700 if sample == 1 else machine.clock_mhz

    machine.during = during
    taken, conditions = machine.guard().watch(machine.sample)
    assert (taken, conditions) == (2, Conditions(1700, 1.0, 1, ""))


def test_a_clock_that_keeps_moving_is_quarantined(machine: Machine) -> None:
    def during(sample: int) -> None:
        machine.clock_mhz = 1700 if sample % 2 else 1980

    machine.during = during
    _, conditions = machine.guard().watch(machine.sample)
    assert conditions.retakes == RETAKES
    assert conditions.trouble == "the SM clock went from 1980 to 1700 MHz"


@pytest.mark.parametrize(("to_mhz", "reasons"), [(1800, 0), (1300, POWER_CAP)])
def test_small_moves_and_the_kernels_own_heat_are_no_trouble(
    machine: Machine, to_mhz: int, reasons: int
) -> None:
    def during(_: int) -> None:
        machine.clock_mhz, machine.reasons = to_mhz, reasons

    machine.during = during
    _, conditions = machine.guard().watch(machine.sample)
    assert (conditions.retakes, conditions.trouble) == (0, "")


def test_a_clock_that_wakes_up_is_no_trouble(machine: Machine) -> None:
    machine.clock_mhz, machine.reasons = 345, IDLE

    def during(_: int) -> None:
        machine.clock_mhz, machine.reasons = 1980, 0

    machine.during = during
    _, conditions = machine.guard().watch(machine.sample)
    assert conditions.trouble == ""


def test_a_process_that_comes_and_does_nothing_costs_one_retake(machine: Machine) -> None:
    guard = machine.guard()

    def during(sample: int) -> None:
        if sample == 1:
            machine.there |= {7}

    machine.during = during
    _, conditions = guard.watch(machine.sample)
    assert (conditions.retakes, conditions.trouble) == (1, "")
    machine.now_s += 1
    assert guard.watch(machine.sample)[1].retakes == 0


def test_a_process_that_works_is_quarantined_until_it_rests(machine: Machine) -> None:
    guard = machine.guard()
    machine.there |= {7}
    machine.shares[7] = 40
    _, first = guard.watch(machine.sample)
    assert (first.retakes, first.trouble) == (RETAKES, "process 7 used 40 % of the SMs")
    _, second = guard.watch(machine.sample)
    assert second.retakes == 0, "one that stays disturbed is not waited for"
    assert second.trouble
    machine.shares = {}
    assert guard.watch(machine.sample)[1].trouble, "without news the last word stands"
    machine.shares = {OURS: 90, 7: 0}
    assert guard.watch(machine.sample)[1].trouble == ""


def test_where_our_own_id_is_hidden_utilisation_says_nothing(machine: Machine) -> None:
    machine.there = frozenset()
    machine.shares = {4711: 90}
    _, conditions = machine.guard(ours=frozenset()).watch(machine.sample)
    assert conditions.trouble == ""


def test_the_anchor_shows_work_of_others_where_processes_are_hidden(machine: Machine) -> None:
    machine.there = frozenset()
    guard = machine.guard(ours=frozenset())
    assert guard.watch(machine.sample)[1].drift == 1.0
    machine.anchor_us = 6000.0
    machine.now_s += ANCHOR_EVERY_S
    _, conditions = guard.watch(machine.sample)
    assert (conditions.retakes, conditions.drift) == (RETAKES, 2.0)
    assert conditions.trouble.startswith("the anchor took 2.00 times its least")
    machine.anchor_us = 3300.0
    _, conditions = guard.watch(machine.sample)
    assert (conditions.trouble, conditions.drift) == ("", 1.1)


def test_a_device_shared_from_the_start_shows_by_what_its_kind_should_take(
    machine: Machine,
) -> None:
    machine.there = frozenset()
    machine.anchor_us = 3000.0 * SHARED * 1.1
    _, conditions = machine.guard(ours=frozenset()).watch(machine.sample)
    assert conditions.trouble


def test_drift_is_logged_below_the_limit(machine: Machine) -> None:
    guard = machine.guard()
    guard.watch(machine.sample)
    machine.anchor_us = 3600.0
    machine.now_s += ANCHOR_EVERY_S
    _, conditions = guard.watch(machine.sample)
    assert (conditions.drift, conditions.trouble) == (1.2, "")


def test_nothing_to_ask_is_no_trouble() -> None:
    assert Guard(None).watch(lambda: 5) == (5, Conditions())


def test_without_the_driver_a_watch_reads_nothing() -> None:
    watch = GpuWatch("GPU-00000000-0000-0000-0000-000000000000")
    if watch.works:
        pytest.skip("there is a GPU")
    assert (watch.reading(), watch.processes(), watch.working()) == (Reading(0, 0), frozenset(), {})


def test_our_own_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: OURS)
    assert own_ids(frozenset({OURS, 7}), frozenset({7})) == {OURS}
    assert own_ids(frozenset({4711, 7}), frozenset({7})) == {4711}
    assert own_ids(frozenset(), frozenset()) == frozenset()
