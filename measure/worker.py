"""The child process that owns a device: answers requests with measurements, or with failures.

It keeps the data of several workloads, of which the one opened last is at work. Those of the others
take no more than HELD_SHARE of the device's memory, and go at once where memory is short: whether a
program has room never depends on what else was measured. Knows no schedule. An error that the
device does not recover from is answered with Broken, and the parent starts another worker.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from measure.contest import Contest
from measure.job import (
    Broken,
    Compare,
    Disagreed,
    Identify,
    Identity,
    Measure,
    Open,
    Opened,
    Release,
    Released,
    Rounds,
    Verify,
)
from measure.measurement import Cause, Failed, Failure
from measure.second_opinion import Disagreement
from measure.session import NoGpu, Session, usable, uuid_of
from measure.trouble import failure_of, healthy

#: The data of workloads that are not at work may take this share of a device's memory.
HELD_SHARE = 0.25
#: The same where there is no device, in bytes.
HELD_BYTES = 1 << 30
_Name = tuple[str, str, tuple[int, ...]]


class Worker:
    """Answers Identify with Identity and Open with Opened or Disagreed.

    Then Verify with Evidence, Measure with Timed and Compare with Rounds. Any may be answered with
    Failed, or with Broken. Another Open may follow at any time, also of a workload that was open
    before. Release is answered with Released, and all data are forgotten.
    """

    def __init__(self) -> None:
        #: By workload, the one at work last.
        self._sessions: OrderedDict[_Name, Session] = OrderedDict()
        #: The ids by which the driver knows this process, once a session has found them out.
        self._ours = frozenset[int]()

    def handle(
        self,
        request: Identify | Open | Release | Verify | Measure | Compare,
        note: Callable[[str], None],
    ) -> Any:
        """Answer one request."""
        if isinstance(request, Identify):
            return _identity(request)
        if isinstance(request, Open):
            return self._opened(request)
        if isinstance(request, Release):
            return self._release()
        if not self._sessions:
            raise RuntimeError("the first request of a worker is Open")
        session = next(reversed(self._sessions.values()))
        reply = _answer(session, request, note)
        if _lacked_memory(reply) and self._forget_others():
            reply = _answer(session, request, note)
        return reply

    def _release(self) -> Released:
        self._sessions.clear()
        _collect()
        return Released()

    def _forget_others(self, most_bytes: float = 0) -> bool:
        """Forget the longest unused until the rest, less the last, take no more; any at all?"""
        before = len(self._sessions)
        while sum(s.held_bytes for s in [*self._sessions.values()][:-1]) > most_bytes:
            self._sessions.popitem(last=False)
        if len(self._sessions) < before:
            _collect()
        return len(self._sessions) < before

    def _opened(self, request: Open) -> Opened | Disagreed | Failed:
        name = (request.workload.key, request.device, request.seeds)
        session = self._sessions.pop(name, None)
        if session is None:
            try:
                session = self._made(request)
            except Disagreement as error:
                return Disagreed(str(error))
            except NoGpu as missing:
                return Failed(Failure.RUNTIME, str(missing))
            except torch.OutOfMemoryError as error:
                failed = failure_of(error)
                return replace(failed, detail=f"{failed.detail} for the data of the workload")
        self._sessions[name] = session
        self._forget_others(held_limit(session.device))
        self._ours = session.ours
        return session.opened

    def _made(self, request: Open) -> Session:
        """Make the data of a workload, alone if there is no room for them beside others."""
        beside = next(reversed(self._sessions.values()), None)
        try:
            return Session(request, self._ours, beside)
        except torch.OutOfMemoryError:
            if beside is None:
                raise
            del beside
            self._release()
        return Session(request, self._ours)


def held_limit(device: torch.device) -> float:
    """Return the bytes that the data of workloads not at work may take."""
    if device.type != "cuda":
        return HELD_BYTES
    return HELD_SHARE * torch.cuda.get_device_properties(device).total_memory


def _collect() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def _lacked_memory(reply: Any) -> bool:
    """Whether memory was short, for a program or for an entrant of a comparison."""
    failures = [failed for _, failed in reply.failures] if isinstance(reply, Rounds) else [reply]
    return any(isinstance(f, Failed) and f.cause is Cause.OUT_OF_MEMORY for f in failures)


def _answer(
    session: Session, request: Verify | Measure | Compare, note: Callable[[str], None]
) -> Any:
    if isinstance(request, Compare):
        contest = Contest(session, request, note)
        return _attempt(session, contest.run, lambda: contest.turn)
    if isinstance(request, Verify):
        return _attempt(session, lambda: session.check(request.program))
    return _attempt(session, lambda: session.measure(request.program, request.abort_above_us))


def _identity(request: Identify) -> Identity | Failed:
    try:
        return Identity(uuid_of(usable(torch.device(request.device))))
    except NoGpu as missing:
        return Failed(Failure.RUNTIME, str(missing))


def _attempt(
    session: Session, action: Callable[[], Any], turn: Callable[[], str] = lambda: ""
) -> Any:
    """Return what ``action`` returns, or the failure that its exception is."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001  a program may make anything fail
        failed = failure_of(error)
        if healthy(session.device):
            return failed
        return Broken(replace(failed, cause=Cause.DEVICE_LOST), turn())


handle = Worker().handle
