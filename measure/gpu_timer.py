"""GPU time of work on the current stream, with the L2 cache flushed before each piece.

Knows nothing of what it times. A piece lies between two events on the stream, behind a write of
twice the L2 cache. The host queues a whole batch of pieces behind a gate, a kernel that spins
until the host is done, so the device always has work waiting and the host's cost of starting a
piece never shows. Whether that held is checked, not hoped: a piece whose first event has already
happened by the time its last is queued may have waited for the host, and its time is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

#: Pieces queued at once: a stream holds about a thousand entries before the host blocks.
BATCH = 64
_LONGEST_GATE_US = 100_000.0
_DEFAULT_L2_BYTES = 64 << 20


class HostTooSlow(RuntimeError):
    """The host could not keep ahead of the device, however long the gate."""


class GpuTimer:
    """Times pieces of work on one device. Use it with that device current."""

    def __init__(self, l2_bytes: int) -> None:
        self._flush = torch.empty(
            2 * (l2_bytes or _DEFAULT_L2_BYTES), dtype=torch.int8, device="cuda"
        )
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(BATCH)
        ]
        #: What the host takes to queue one piece, and what the device takes to flush.
        self._host_us = 100.0
        self._slack = 1.5
        self._cycles_per_us = self._calibrate()

    def samples_us(self, piece: Callable[[], None], count: int) -> list[float]:
        """Return ``count`` times of ``piece`` in microseconds. Raises HostTooSlow."""
        samples: list[float] = []
        for _ in range(20):
            wanted = min(BATCH, count - len(samples))
            samples += [t for t in self.batch_us([piece] * wanted) if t is not None]
            if len(samples) >= count:
                return samples
        raise HostTooSlow(f"{len(samples)} of {count} samples were free of waiting for the host")

    def batch_us(self, pieces: Sequence[Callable[[], None]]) -> list[float | None]:
        """Run at most BATCH pieces one after another and return the time of each.

        None stands for a time in which the device may have waited for the host.
        """
        self._gate(len(pieces))
        waited = []
        begun = time.perf_counter()
        for piece, (before, after) in zip(pieces, self._events, strict=False):
            self._flush.zero_()
            before.record()
            piece()
            after.record()
            waited.append(before.query())
        host_us = (time.perf_counter() - begun) * 1e6 / len(pieces)
        torch.cuda.current_stream().synchronize()
        self._learn(host_us, waited)
        return [
            None if late else before.elapsed_time(after) * 1e3
            for late, (before, after) in zip(waited, self._events, strict=False)
        ]

    def _gate(self, count: int) -> None:
        """Keep the device busy for as long as the host should need to queue ``count`` pieces."""
        gate_us = min(self._slack * self._host_us * count + 50.0, _LONGEST_GATE_US)
        torch.cuda._sleep(int(gate_us * self._cycles_per_us))

    def _learn(self, host_us: float, waited: Sequence[bool]) -> None:
        self._host_us = host_us
        if any(waited):
            self._slack = min(self._slack * 2, 16.0)
        else:
            self._slack = max(self._slack * 0.9, 1.5)

    def _calibrate(self) -> float:
        """Return how many cycles of the gate pass in a microsecond."""
        before, after = self._events[0]
        cycles = 2_000_000
        torch.cuda._sleep(cycles)
        before.record()
        torch.cuda._sleep(cycles)
        after.record()
        after.synchronize()
        return cycles / max(before.elapsed_time(after) * 1e3, 1.0)
