"""GPU time of work on the current stream, with the L2 cache flushed before each piece.

Knows nothing of what it times. A piece lies between two events on the stream, behind a read of
twice the L2 cache: what it finds there is foreign and clean. (A write would leave the cache dirty,
and the piece would pay for writing it back: docs/adr/0004.) The host queues a whole batch of pieces
behind a gate, a kernel that spins until the host is done, so the device always has work waiting and
the host's cost of starting a piece never shows. Whether that held is checked, not hoped: a piece
whose first event has already happened by the time its last is queued may have waited for the host,
and its time is dropped.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Protocol

import torch

#: Pieces queued at once: a stream holds about a thousand entries before the host blocks.
BATCH = 64
_LONGEST_GATE_US = 100_000.0
_ATTEMPTS = 20
_STRETCHES = 4
_DEFAULT_L2_BYTES = 64 << 20
#: Rows of what is read to flush the cache: each is summed by a block of its own, so that one kernel
#: does it all and writes next to nothing.
_FLUSH_ROWS = 2048


class HostTooSlow(RuntimeError):
    """The host could not keep ahead of the device, however long the gate."""


#: Rounds that decide which of several ways to compute one thing is the fastest.
DECIDING_ROUNDS = 7


class GpuTimer:
    """Times pieces of work on one device. Use it with that device current."""

    def __init__(self, l2_bytes: int) -> None:
        columns = 2 * (l2_bytes or _DEFAULT_L2_BYTES) // (4 * _FLUSH_ROWS)
        self._foreign = torch.zeros(_FLUSH_ROWS, columns, dtype=torch.float32, device="cuda")
        self._sums = torch.empty(_FLUSH_ROWS, dtype=torch.float32, device="cuda")
        self._events = [(_event(), _event()) for _ in range(BATCH)]
        self._cycles_per_us = self._calibrate()
        #: What the host takes to queue one piece, and the device to flush and run it, at the last.
        self._host_us = 100.0
        self._device_us = 0.0
        self._slack = 1.5

    def samples_us(self, piece: Callable[[], object], count: int) -> list[float]:
        """Return ``count`` times of ``piece`` in microseconds. Raises HostTooSlow."""
        samples: list[float] = []
        for _ in range(_ATTEMPTS):
            wanted = min(BATCH, count - len(samples))
            samples += [t for t in self.batch_us([piece] * wanted) if t is not None]
            if len(samples) >= count:
                return samples
        raise HostTooSlow(f"{len(samples)} of {count} samples were free of waiting for the host")

    def batch_us(self, pieces: Sequence[Callable[[], object]]) -> list[float | None]:
        """Run at most BATCH pieces one after another and return the time of each.

        None stands for a time in which the device may have waited for the host.
        """
        if not pieces:
            return []
        events = self._events[: len(pieces)]
        self._gate(len(pieces))
        late = []
        begun = time.perf_counter()
        for piece, (before, after) in zip(pieces, events, strict=True):
            torch.sum(self._foreign, dim=1, out=self._sums)
            before.record()
            piece()
            after.record()
            late.append(bool(before.query()))
        host_us = (time.perf_counter() - begun) * 1e6 / len(pieces)
        events[-1][1].synchronize()
        self._learn(events, host_us, any(late))
        times_us = [_between_us(before, after) for before, after in events]
        return [None if waited else t for waited, t in zip(late, times_us, strict=True)]

    def stretch_us(self, piece: Callable[[], object], count: int) -> float:
        """Return the microseconds of ``count`` pieces in one go, nothing flushed in between.

        Where the host was late every time, the least of the times, which then are too long.
        """
        before, after = self._events[0]
        least_us = math.inf
        for attempt in range(_STRETCHES):
            _spin(int(min(1000.0 * 2**attempt, _LONGEST_GATE_US) * self._cycles_per_us))
            before.record()
            for _ in range(count):
                piece()
            after.record()
            late = before.query()
            after.synchronize()
            least_us = min(least_us, _between_us(before, after))
            if not late:
                break
        return least_us

    def _gate(self, count: int) -> None:
        """Keep the device busy until the host should be far enough ahead with ``count`` pieces.

        The device works too, so the host needs a lead of what it is slower by, and of one piece.
        """
        behind_us = max(self._host_us, count * (self._host_us - self._device_us))
        gate_us = min(self._slack * behind_us + 50.0, _LONGEST_GATE_US)
        _spin(int(gate_us * self._cycles_per_us))

    def _learn(self, events: Sequence[tuple[Any, Any]], host_us: float, late: bool) -> None:
        whole_us = _between_us(events[0][0], events[-1][1])
        self._device_us = 0.0 if late else whole_us / len(events)
        self._host_us = host_us
        self._slack = min(self._slack * 2, 16.0) if late else max(self._slack * 0.9, 1.5)

    def _calibrate(self) -> float:
        """Return how many cycles of the gate pass in a microsecond."""
        before, after = self._events[0]
        cycles = 2_000_000
        _spin(cycles)
        before.record()
        _spin(cycles)
        after.record()
        after.synchronize()
        return cycles / max(_between_us(before, after), 1.0)


class Batches(Protocol):
    """What times a batch of pieces, as GpuTimer does."""

    def batch_us(self, pieces: Sequence[Callable[[], object]]) -> list[float | None]:
        """Return the time of each piece in microseconds, None where it is not known."""


def fastest(timer: Batches, pieces: Sequence[Callable[[], object]]) -> int:
    """Time pieces in turns, briefly, and return the index of the one with the least median."""
    if len(pieces) == 1:
        return 0
    times: list[list[float]] = [[] for _ in pieces]
    order, turns = random.Random(0), list(range(len(pieces)))
    for _ in range(DECIDING_ROUNDS):
        order.shuffle(turns)
        found = timer.batch_us([pieces[index] for index in turns])
        for index, time_us in zip(turns, found, strict=True):
            if time_us is not None:
                times[index].append(time_us)
    medians = [median(of_one) if of_one else math.inf for of_one in times]
    return medians.index(min(medians))


def _spin(cycles: int) -> None:
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _between_us(before: Any, after: Any) -> float:
    """Return the microseconds between two events, to the nanosecond."""
    return round(float(before.elapsed_time(after)) * 1e3, 3)
