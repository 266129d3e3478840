"""Processes that outlive one workload: builders, and a measuring worker between two of them.

Starting them takes seconds, tuning one workload of a suite hardly more. Knows nothing of what they
are asked.
"""

from __future__ import annotations

from measure.builder import BuilderPool
from measure.child import Child
from measure.closing import Closing
from measure.runner import start_worker


class Crew(Closing):
    """Serves one service after another, each started with what the one before has left.

    ``workers`` counts the builders, by default one a core. A context manager: at its end all
    processes end. A worker that broke is not taken back.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers
        self._pool: BuilderPool | None = None
        self._idle: Child | None = None

    def builders(self, timeout_s: float) -> BuilderPool:
        """Return the builders, from now on with ``timeout_s`` seconds for each build."""
        if self._pool is None:
            self._pool = BuilderPool(self._workers, timeout_s)
        self._pool.timeout_s = timeout_s
        return self._pool

    def worker(self) -> Child:
        """Return the measuring worker that was left here, or start one."""
        child, self._idle = self._idle, None
        return child or start_worker()

    def leave(self, worker: Child | None) -> None:
        """Keep ``worker``, which holds no workload, for the next service."""
        if self._idle is not None:
            self._idle.close()
        self._idle = worker

    def close(self) -> None:
        """End every process. May be called again."""
        self.leave(None)
        if self._pool is not None:
            self._pool.close()
            self._pool = None
