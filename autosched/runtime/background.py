"""Workloads handed to a tuner behind the caller's back: once each, one at a time, in one thread.

Knows no tuner: it is a callable that returns when it is done. Whatever it raises is logged, and
costs the workload its turn and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from search_space.workload import Workload

Tuner = Callable[[Workload], object]
_LOG = logging.getLogger("autosched.runtime")


class Background:
    """Runs ``tuner`` on what is asked for, and then ``done``. Safe to call from many threads.

    Its thread is a daemon, lives while there is work, and never keeps a process from ending.
    """

    def __init__(self, tuner: Tuner, done: Callable[[Workload], None]) -> None:
        self._tuner = tuner
        self._done = done
        self._asked: set[str] = set()
        self._waiting: deque[Workload] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def ask(self, workload: Workload) -> None:
        """Queue a workload unless it was queued before. Returns at once."""
        with self._lock:
            if workload.key in self._asked:
                return
            self._asked.add(workload.key)
            self._waiting.append(workload)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="autosched-tuner", daemon=True
                )
                self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do; return whether that is so."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return self._thread is None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                workload = self._waiting.popleft()
            label = workload.label or workload.key
            try:
                self._tuner(workload)
                self._done(workload)
            except BaseException as error:  # noqa: BLE001  whatever it is, serving goes on
                _LOG.warning(
                    "tuning %s in the background failed: %s: %s",
                    label,
                    type(error).__name__,
                    error,
                )
            else:
                _LOG.info("%s was tuned in the background", label)
