"""The parent's side of measuring one workload: what is asked of a worker, and who is to blame.

Knows nothing of builds. All calls come from one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from measure.builder import CAUSES
from measure.child import Lost
from measure.comparison import Comparison, judge
from measure.job import Broken, Compare, Measure, Open, Rounds
from measure.measurement import Cause, Failed, Failure, Measurement
from measure.seat import Seat
from measure.service import NoDevice, Patience
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: The steps of a comparison answer for several entrants and make data.
COMPARE_FACTOR = 6.0
_Reply = Measurement | Rounds | Broken | Lost


class Runner:
    """Verifies and times programs of one workload on one device, in a child process.

    ``timeout_s`` bounds each program. ``seat`` is where the worker is, shared with others; without
    one the runner has its own, and the GPU's lock is held from the opening to ``close``, over every
    worker that comes and goes. Raises NoDevice when no worker can be started, GpuBusy and
    BadReference.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        device: str,
        *,
        seeds: tuple[int, ...] = (0, 1),
        timeout_s: float = 10.0,
        module: str = "measure.gpu_worker",
        patience: Patience = Patience(),  # noqa: B008  frozen
        seat: Seat | None = None,
    ) -> None:
        self._open = Open(workload, target, device, seeds)
        self._timeout_s = timeout_s
        self._patience = patience
        self._own_seat = seat is None
        self._seat = seat or Seat(module)
        self._closed = False
        self._seated = True
        try:
            self.opened = self._seat.take(self._open, patience)
        except BaseException:
            if self._own_seat:
                self._seat.close()
            raise

    def measure(self, program: Program, abort_above_us: float | None = None) -> Measurement:
        """Verify and time one program."""
        reply = self._ask(Measure(program, abort_above_us), self._timeout_s)
        if isinstance(reply, Lost):
            return _failure(reply, self._timeout_s)
        if isinstance(reply, Broken):
            return reply.failed
        assert not isinstance(reply, Rounds)  # noqa: S101  no answer to a Measure
        return reply

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int, seeds: tuple[int, ...]
    ) -> Comparison:
        """Time programs in turns. One that breaks the worker is dropped, and the rest go again.

        Where it is not known which did, the next attempt goes step by step to find out.
        """
        failures: dict[int, Failed] = {}
        library_failure: Failed | None = None
        careful = False
        while True:
            left = [index for index in range(len(programs)) if index not in failures]
            wanted = library and library_failure is None
            entrants = tuple(programs[index] for index in left)
            request = Compare(entrants, wanted, rounds, seeds, careful)
            reply = self._ask(request, COMPARE_FACTOR * self._timeout_s)
            if isinstance(reply, Rounds):
                break
            failed, turn = _blame(reply, self._timeout_s)
            if not turn and careful:
                raise NoDevice(f"the comparison broke the worker again: {failed.detail}")
            careful = careful or not turn
            if turn and int(turn) < len(left):
                failures[left[int(turn)]] = failed
            elif turn:
                library_failure = failed
        return _judged(programs, reply, left, failures, wanted, library_failure, seeds)

    def close(self) -> None:
        """Leave the worker to others, or end it if it is the runner's own. May be called again."""
        self._closed = True
        if not self._seated:
            return
        self._seated = False
        if self._own_seat:
            self._seat.close()
        else:
            self._seat.leave()

    def kill(self) -> None:
        """End the call in progress from another thread, its worker with it; none comes after it."""
        self._closed = True
        self._seat.kill(self._open)

    def _ask(self, request: Measure | Compare, timeout_s: float) -> _Reply:
        if self._closed:
            raise NoDevice(f"{self._open.device}: it was closed")
        reply: _Reply = self._seat.ask(self._open, request, timeout_s, self._patience)
        return reply


def _failure(lost: Lost, timeout_s: float) -> Failed:
    if lost.reason == "deadline":
        detail = f"the run took more than {timeout_s:g} s"
        return Failed(Failure.TIMEOUT, detail, run_s=timeout_s, cause=Cause.RUN_DEADLINE)
    detail = f"the worker broke: {lost.detail}"
    return Failed(Failure.RUNTIME, detail, cause=CAUSES[lost.reason])


def _blame(reply: Measurement | Broken | Lost, timeout_s: float) -> tuple[Failed, str]:
    """Return what went wrong in a comparison, and whose turn it was, "" if nobody knows."""
    if isinstance(reply, Lost):
        return _failure(reply, timeout_s), reply.note
    if isinstance(reply, Broken):
        return reply.failed, reply.turn
    detail = reply.detail if isinstance(reply, Failed) else "a comparison was answered with a time"
    raise NoDevice(f"the comparison failed: {detail}")


def _judged(
    programs: Sequence[Program],
    rounds: Rounds,
    left: Sequence[int],
    failures: dict[int, Failed],
    library: bool,
    library_failure: Failed | None,
    seeds: tuple[int, ...],
) -> Comparison:
    """Put the rounds of those who were left back among all programs, and rank them."""
    found = dict(rounds.failures)
    times_us: list[tuple[float, ...]] = [()] * len(programs)
    for position, index in enumerate(left):
        if position in found:
            failures[index] = found[position]
        else:
            times_us[index] = rounds.times_us[position]
    library_us = None
    if library:
        library_failure = found.get(len(left))
        library_us = None if library_failure else rounds.times_us[len(left)]
    comparison = judge(times_us, failures, library_us, library_failure, seeds)
    return replace(comparison, trouble=rounds.trouble)
