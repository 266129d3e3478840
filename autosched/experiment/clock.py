"""The wall time that a replayed run would have taken. Knows no strategy; reads no clock.

Builds start in the order of proposals on whichever builder is free first; what is built runs on
one GPU, one after another, in the order in which builds end; asking for a batch takes the time
that the experiment states. Batches overlap as they do in a real run, so a batch that is measured
hides the builds of the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from measure.measurement import Measurement


@dataclass(frozen=True, order=True)
class _Waiting:
    """What is built or will be: when its build ends, in which order it was proposed, its run."""

    built_s: float
    number: int
    run_s: float


class SimulatedClock:
    """Seconds since the start of a run with ``builders`` builders."""

    def __init__(self, builders: int) -> None:
        self._builders = [0.0] * builders
        self._waiting: list[_Waiting] = []
        self._done: dict[int, float] = {}
        self._gpu_s = 0.0
        #: The present of whoever asks and tells.
        self.now_s = 0.0

    def spend(self, seconds: float) -> None:
        """Let the asking side take so long; builds and runs go on meanwhile."""
        self.now_s += seconds

    def submit(self, outcomes: Sequence[tuple[int, Measurement]]) -> None:
        """Hand over proposals by number, now, with the times that their outcomes recorded."""
        for number, outcome in outcomes:
            begun_s = max(self.now_s, heapq.heappop(self._builders))
            built_s = begun_s + outcome.build_s
            heapq.heappush(self._builders, built_s)
            heapq.heappush(self._waiting, _Waiting(built_s, number, outcome.run_s))

    def wait(self, numbers: Sequence[int]) -> dict[int, float]:
        """Go on until all of ``numbers`` ran; return when each did."""
        missing = {number for number in numbers if number not in self._done}
        while missing:
            ready = heapq.heappop(self._waiting)
            self._gpu_s = max(self._gpu_s, ready.built_s) + ready.run_s
            self._done[ready.number] = self._gpu_s
            missing.discard(ready.number)
        finished = {number: self._done[number] for number in numbers}
        self.now_s = max([self.now_s, *finished.values()])
        return finished
