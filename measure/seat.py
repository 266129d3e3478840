"""The place of a measuring worker, at which runners of several workloads take turns.

One worker at a time, replaced whenever it breaks. It keeps the data of the workloads that it had
last, as far as memory allows (``measure.worker``): from one of them to another is a message.
Knows nothing of what is asked.
"""

from __future__ import annotations

import threading
from typing import Any

from measure.child import Child, Lost
from measure.closing import Closing
from measure.gpu_lock import GpuLock
from measure.job import (
    Broken,
    Disagreed,
    Identify,
    Identity,
    Open,
    Opened,
    Release,
    Released,
)
from measure.measurement import Failed
from measure.service import BadReference, NoDevice, Patience

#: Starting a worker loads torch, takes the device and evaluates the reference.
START_TIMEOUT_S = 180.0
_RELEASE_TIMEOUT_S = 30.0


class Seat(Closing):
    """One worker for one device, whose lock is held from the first ``take`` to the last ``leave``.

    Those who ask are known by the Open of their workload. May be used from several threads, who
    wait for each other. ``module`` is what the worker runs.
    """

    def __init__(self, module: str = "measure.gpu_worker") -> None:
        self._module = module
        self._child: Child | None = None
        #: What the worker was opened for last, and whom it works for just now.
        self._opened: Open | None = None
        self._asking: Open | None = None
        self._gpu: GpuLock | None = None
        self._takers = 0
        self._closed = False
        self._turn = threading.Lock()
        self._guard = threading.Lock()

    @property
    def worker(self) -> Child | None:
        """The worker that is there, started or at work."""
        return self._child

    def start(self) -> None:
        """Start a worker if there is none; it loads what it needs while others do other things."""
        with self._turn:
            if self._child is None and not self._closed:
                self._child = start_worker(self._module)

    def take(self, request: Open, patience: Patience) -> Opened:
        """Open a workload, for the first time by whoever asks, who leaves at the end.

        Where the GPU is another's it is waited for with ``patience``. Raises NoDevice, GpuBusy and
        BadReference among them; nobody is seated then.
        """
        with self._turn:
            self._takers += 1
            try:
                return self._open(request, patience)
            except BaseException:
                self._left()
                raise

    def ask(self, request: Open, what: Any, timeout_s: float, patience: Patience) -> Any:
        """Return the reply to ``what`` for the workload of ``request``, opened anew if need be.

        After Lost or Broken the next to ask gets a new worker. Raises NoDevice.
        """
        with self._turn:
            if self._child is None or self._opened != request:
                self._open(request, patience)
            assert self._child is not None  # noqa: S101  _open raises or sets it
            self._mark(request)
            try:
                reply = self._asked(self._child, what, timeout_s)
            finally:
                self._mark(None)
            if isinstance(reply, Lost | Broken):
                self._drop()
            return reply

    def leave(self) -> None:
        """Be done; with the last of all the worker forgets its data, and the GPU is free."""
        with self._turn:
            self._left()

    def kill(self, request: Open) -> None:
        """Kill the worker from another thread if it works for ``request`` just now."""
        with self._guard:
            if self._asking is request and self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """End the worker, which must not be at work. May be called again."""
        self._closed = True
        with self._turn:
            self._drop()
            self._unlock()

    def _asked(self, child: Child, what: Any, timeout_s: float) -> Any:
        """Return the reply; a worker whose reply nobody has waited for is of no more use."""
        try:
            return child.ask(what, timeout_s)
        except BaseException:
            self._drop()
            raise

    def _left(self) -> None:
        self._takers -= 1
        if self._takers > 0:
            return
        self._opened = None
        if self._child is not None:
            released = self._asked(self._child, Release(), _RELEASE_TIMEOUT_S)
            if not isinstance(released, Released):
                self._drop()
        self._unlock()

    def _unlock(self) -> None:
        if self._gpu is not None:
            self._gpu.release()
            self._gpu = None

    def _mark(self, request: Open | None) -> None:
        with self._guard:
            self._asking = request

    def _drop(self) -> None:
        with self._guard:
            child, self._child, self._opened = self._child, None, None
        if child is not None:
            child.close()

    def _open(self, request: Open, patience: Patience) -> Opened:
        """Give a worker the workload, starting one if need be; a second attempt, then NoDevice."""
        detail = "it was closed"
        for _ in range(0 if self._closed else 2):
            self._child = self._child or start_worker(self._module)
            reply = self._opening(self._child, request, patience)
            if isinstance(reply, Opened):
                self._opened = request
                return reply
            self._drop()
            if isinstance(reply, Disagreed):
                raise BadReference(reply.text)
            detail = reply.detail
            if isinstance(reply, Failed):
                break
        raise NoDevice(f"{request.device}: {detail}")

    def _opening(
        self, child: Child, request: Open, patience: Patience
    ) -> Opened | Disagreed | Failed | Lost:
        """Ask which GPU it is, wait for its lock, and only then have work done on it."""
        if self._gpu is None:
            identity: Identity | Failed | Lost = self._asked(
                child, Identify(request.device), START_TIMEOUT_S
            )
            if not isinstance(identity, Identity):
                return identity
            if identity.uuid:
                lock = GpuLock(identity.uuid)
                lock.acquire(patience)
                self._gpu = lock
        reply: Opened | Disagreed | Failed | Lost = self._asked(child, request, START_TIMEOUT_S)
        return reply


def start_worker(module: str = "measure.gpu_worker") -> Child:
    """Start a measuring worker, which loads what it needs while its parent does other things."""
    return Child(module, {"TRITON_INTERPRET": None})
