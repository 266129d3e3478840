"""The child process that owns a device: answers requests with measurements, or with failures.

Knows no schedule. An error that the device does not recover from is answered with Broken, and the
parent starts another worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure.contest import Contest
from measure.job import Broken, Compare, Measure, Open, Opened, Verify
from measure.measurement import Failed, Failure
from measure.session import NoGpu, Session
from measure.trouble import failure_of, healthy


class Worker:
    """Answers Open with Opened, then Verify with Evidence, Measure with Timed, Compare with Rounds.

    Any of the latter may be answered with Failed, or with Broken.
    """

    def __init__(self) -> None:
        self._session: Session | None = None

    def handle(
        self, request: Open | Verify | Measure | Compare, note: Callable[[str], None]
    ) -> Any:
        """Answer one request."""
        if isinstance(request, Open):
            self._session = None
            try:
                self._session = Session(request)
            except NoGpu as missing:
                return Failed(Failure.RUNTIME, str(missing))
            return self._session.opened()
        if self._session is None:
            raise RuntimeError("the first request of a worker is Open")
        if isinstance(request, Compare):
            contest = Contest(self._session, request, note)
            return _attempt(self._session, contest.run, lambda: contest.turn)
        session = self._session
        if isinstance(request, Verify):
            return _attempt(session, lambda: session.check(request.program))
        return _attempt(session, lambda: session.measure(request.program, request.abort_above_us))

    def _opened(self, request: Open) -> Opened | Failed:
        self._session = None
        try:
            self._session = Session(request)
        except (RuntimeError, AssertionError) as error:
            # How torch says that there is no such device, or no memory left on it.
            return failure_of(error)
        return self._session.opened()


def _attempt(
    session: Session, action: Callable[[], Any], turn: Callable[[], str] = lambda: ""
) -> Any:
    """Return what ``action`` returns, or the failure that its exception is."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001  a program may make anything fail
        failed = failure_of(error)
        return failed if healthy(session.device) else Broken(failed, turn())


handle = Worker().handle
