"""Processes that outlive one workload: builders, and a measuring worker for each device.

Starting them takes seconds, tuning one workload of a suite hardly more. Knows nothing of what they
are asked.
"""

from __future__ import annotations

from measure.builder import BuilderPool
from measure.closing import Closing
from measure.seat import Seat


class Crew(Closing):
    """Serves services one after another, or side by side.

    ``workers`` counts the builders, by default one a core; ``module`` is what measuring workers
    run. A context manager: at its end all processes end.
    """

    def __init__(self, workers: int | None = None, module: str = "measure.gpu_worker") -> None:
        self._workers = workers
        self._module = module
        self._pool: BuilderPool | None = None
        self._seats: dict[str, Seat] = {}

    def builders(self, timeout_s: float) -> BuilderPool:
        """Return the builders, from now on with ``timeout_s`` seconds for each build."""
        if self._pool is None:
            self._pool = BuilderPool(self._workers, timeout_s)
        self._pool.timeout_s = timeout_s
        return self._pool

    def seat(self, device: str) -> Seat:
        """Return where those who measure on ``device`` take turns, a worker started there."""
        name = "cuda:0" if device == "cuda" else device
        if name not in self._seats:
            self._seats[name] = Seat(self._module)
        self._seats[name].start()
        return self._seats[name]

    def close(self) -> None:
        """End every process. May be called again."""
        for seat in self._seats.values():
            seat.close()
        self._seats.clear()
        if self._pool is not None:
            self._pool.close()
            self._pool = None
