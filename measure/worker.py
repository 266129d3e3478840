"""The child process that owns a device: answers requests with measurements, or with failures.

Knows no schedule. An error that the device does not recover from is answered with Broken, and the
parent starts another worker.
"""

from __future__ import annotations

import gc
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
    Verify,
)
from measure.measurement import Cause, Failed, Failure
from measure.second_opinion import Disagreement
from measure.session import NoGpu, Session, usable, uuid_of
from measure.trouble import failure_of, healthy


class Worker:
    """Answers Identify with Identity and Open with Opened or Disagreed.

    Then Verify with Evidence, Measure with Timed and Compare with Rounds. Any may be answered with
    Failed, or with Broken. Release is answered with Released, and another Open may follow.
    """

    def __init__(self) -> None:
        self._session: Session | None = None
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
        if self._session is None:
            raise RuntimeError("the first request of a worker is Open")
        if isinstance(request, Compare):
            contest = Contest(self._session, request, note)
            return _attempt(self._session, contest.run, lambda: contest.turn)
        session = self._session
        if isinstance(request, Verify):
            return _attempt(session, lambda: session.check(request.program))
        return _attempt(session, lambda: session.measure(request.program, request.abort_above_us))

    def _release(self) -> Released:
        self._session = None
        gc.collect()
        torch.cuda.empty_cache()
        return Released()

    def _opened(self, request: Open) -> Opened | Disagreed | Failed:
        self._release()
        try:
            self._session = Session(request, self._ours)
        except Disagreement as error:
            return Disagreed(str(error))
        except NoGpu as missing:
            return Failed(Failure.RUNTIME, str(missing))
        except torch.OutOfMemoryError as error:
            failed = failure_of(error)
            return replace(failed, detail=f"{failed.detail} for the data of the workload")
        self._ours = self._session.ours
        return self._session.opened()


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
