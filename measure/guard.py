"""Was the device left alone while a time was taken? Else the time is taken again, or quarantined.

Knows no kernel and no GPU: it asks a watch (``nvml.GpuWatch``) and an anchor, a fixed piece of
work timed now and then. What spoils a time:

- the SM clock moved by more than CLOCK_SHARE, unless the device was idle before or the software
  power cap held it: that is the kernel's own heat, and the finals pair it away;
- a throttle that a healthy device does not have (``nvml.THROTTLES``);
- a process that was not there at the last look came, or one that is not ours had work on the SMs;
- the anchor takes SHARED times what it took at the best. It lasts several time slices of the
  device, so work of others shows in it even where no process can be seen.

Clock and reasons are read for every time, processes and anchor as often as their cost allows. A
disturbed time is taken again up to RETAKES times, once the device was calm before: one that stays
disturbed is not waited for, its times are quarantined one by one until the anchor is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from measure.measurement import Conditions
from measure.nvml import IDLE, POWER_CAP, Reading

CLOCK_SHARE = 0.10
SHARED = 1.5
RETAKES = 2
#: A process with less of the SMs than this, in percent, draws a screen.
LEAST_WORK = 5
ANCHOR_EVERY_S = 0.25
PROCESSES_EVERY_S = 0.5
#: How long a reading stands for the time before the next sample.
FRESH_S = 0.05
PAUSE_S = 0.05

_Taken = TypeVar("_Taken")


class Watch(Protocol):
    """What the guard asks of a device's driver."""

    def reading(self) -> Reading:
        """Return clock and reasons now."""

    def processes(self) -> frozenset[int]:
        """Return who has a context on the device."""

    def working(self) -> Mapping[int, int]:
        """Return who used how many percent of the SMs since the last call."""


class Guard:
    """Watches one device for one session.

    ``ours`` are the ids by which the driver knows this process; empty where it hides them.
    ``anchor_us`` times the anchor in microseconds, ``expected_us`` is about what it takes on a
    device of this kind, which shows one that is disturbed from the start.
    """

    def __init__(
        self,
        watch: Watch | None,
        anchor_us: Callable[[], float] | None = None,
        *,
        ours: frozenset[int] = frozenset(),
        expected_us: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._watch = watch
        self._anchor_us = anchor_us
        self._ours = ours
        self._clock = clock
        self._pause = pause
        self._known = watch.processes() if watch else frozenset[int]()
        if watch:
            # The driver also remembers what was before this session.
            watch.working()
        self._before = self._after = Reading(0, 0)
        self._read_s = self._anchor_s = self._looked_s = float("-inf")
        self._least_us = expected_us or float("inf")
        self._drift = 0.0
        self._calm = True
        self._worked = ""
        #: What watching has cost so far, the samples themselves apart, and how many times.
        self.spent_s = 0.0
        self.watched = 0

    def watch(self, take: Callable[[], _Taken]) -> tuple[_Taken, Conditions]:
        """Return what ``take`` returns, taken again while the device is disturbed, and how it was.

        The last attempt is returned, with its trouble, where no attempt was free of it.
        """
        patience = RETAKES if self._calm else 0
        self.watched += 1
        for retakes in range(patience + 1):
            self._timed(self._look_before)
            taken = take()
            trouble = self._timed(self._trouble)
            self._calm = not trouble
            if self._calm or retakes == patience:
                break
            self._pause(PAUSE_S)
        return taken, Conditions(self._after.sm_clock_mhz, self._drift, retakes, trouble)

    def _look_before(self) -> str:
        fresh = self._clock() - self._read_s < FRESH_S
        self._before = self._after if fresh else self._reading()
        return ""

    def _trouble(self) -> str:
        """Say what disturbed the sample that has just been taken; "" if nothing did."""
        self._after = self._reading()
        suspect = self._clock_trouble() or self._others()
        now = self._clock()
        due = now - self._anchor_s >= ANCHOR_EVERY_S
        if self._anchor_us is not None and (due or suspect or not self._calm):
            suspect = suspect or self._anchor_trouble(self._anchor_us())
            self._anchor_s = self._clock()
        return suspect

    def _reading(self) -> Reading:
        self._read_s = self._clock()
        return self._watch.reading() if self._watch else Reading(0, 0)

    def _clock_trouble(self) -> str:
        before, after = self._before, self._after
        if after.throttles:
            return f"the clock is held down: {', '.join(after.throttles)}"
        usual = before.reasons & IDLE or (before.reasons | after.reasons) & POWER_CAP
        moved = abs(after.sm_clock_mhz - before.sm_clock_mhz)
        if not usual and before.sm_clock_mhz and moved > CLOCK_SHARE * before.sm_clock_mhz:
            return f"the SM clock went from {before.sm_clock_mhz} to {after.sm_clock_mhz} MHz"
        return ""

    def _others(self) -> str:
        if self._watch is None:
            return ""
        if self._calm and self._clock() - self._looked_s < PROCESSES_EVERY_S:
            return ""
        self._looked_s = self._clock()
        there = self._watch.processes()
        came = sorted(there - self._known - self._ours)
        self._known = there
        if came:
            return f"process {came[0]} came to the device"
        if not self._ours:
            # Which of the workers is this process itself cannot be told.
            return ""
        if shares := self._watch.working():
            # Without news from the driver the last word stands.
            foreign = {p: share for p, share in shares.items() if p not in self._ours}
            busiest = max(foreign, key=lambda process: foreign[process], default=0)
            busy = foreign.get(busiest, 0) >= LEAST_WORK
            self._worked = f"process {busiest} used {foreign[busiest]} % of the SMs" if busy else ""
        return self._worked

    def _anchor_trouble(self, taken_us: float) -> str:
        self._least_us = min(self._least_us, taken_us)
        self._drift = taken_us / self._least_us
        if self._drift <= SHARED:
            return ""
        return f"the anchor took {self._drift:.2f} times its least: the device is shared, or held"

    def _timed(self, look: Callable[[], str]) -> str:
        begun = time.perf_counter()
        try:
            return look()
        finally:
            self.spent_s += time.perf_counter() - begun
