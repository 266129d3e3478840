"""The parent's side of a measuring worker: one child per device, replaced whenever it breaks.

Knows nothing of builds. All calls come from one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from measure.builder import CAUSES
from measure.child import Child, Lost
from measure.comparison import Comparison, judge
from measure.gpu_lock import GpuLock
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
)
from measure.measurement import Cause, Failed, Failure, Measurement
from measure.service import BadReference, NoDevice, Patience
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: Starting a worker loads torch, takes the device and evaluates the reference.
START_TIMEOUT_S = 180.0
#: The steps of a comparison answer for several entrants and make data.
COMPARE_FACTOR = 6.0
_Reply = Measurement | Rounds | Broken | Lost


class Runner:
    """Verifies and times programs of one workload on one device, in a child process.

    ``timeout_s`` bounds each program. The GPU's lock is held from the opening to ``close``, over
    every worker that comes and goes. ``child`` is a worker started before, see ``start_worker``.
    Raises NoDevice when no worker can be started, GpuBusy and BadReference.
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
        child: Child | None = None,
    ) -> None:
        self._open = Open(workload, target, device, seeds)
        self._timeout_s = timeout_s
        self._module = module
        self._patience = patience
        self._child = child
        self._lock: GpuLock | None = None
        self._closed = False
        try:
            self.opened = self._start()
        except BaseException:
            self.close()
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
        """Kill the worker and leave the GPU to others. Nothing is measured afterwards."""
        self._closed = True
        self._drop()
        if self._lock is not None:
            self._lock.release()

    def release(self) -> Child | None:
        """Leave the GPU to others; return the worker, its memory freed, or None if it has broken.

        Nothing is measured afterwards. The caller closes the worker.
        """
        child, healthy = self._child, False
        if child is not None and not self._closed:
            healthy = isinstance(child.ask(Release(), self._timeout_s), Released)
        if healthy:
            self._child = None
        self.close()
        return child if healthy else None

    def kill(self) -> None:
        """Kill the worker from another thread for good; the call in progress then fails."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()

    def _ask(self, request: Measure | Compare, timeout_s: float) -> _Reply:
        if self._child is None:
            self._start()
        assert self._child is not None  # noqa: S101  _start raises or sets it
        reply: _Reply = self._child.ask(request, timeout_s)
        if isinstance(reply, Lost | Broken):
            self._drop()
        return reply

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _start(self) -> Opened:
        """Start a worker and give it the workload; a second attempt, then NoDevice."""
        detail = "it was closed"
        for _ in range(0 if self._closed else 2):
            self._child = self._child or start_worker(self._module)
            reply = self._opening(self._child)
            if isinstance(reply, Opened):
                return reply
            self._drop()
            if isinstance(reply, Disagreed):
                raise BadReference(reply.text)
            detail = reply.detail
            if isinstance(reply, Failed):
                break
        raise NoDevice(f"{self._open.device}: {detail}")

    def _opening(self, child: Child) -> Opened | Disagreed | Failed | Lost:
        """Ask which GPU it is, wait for its lock, and only then have work done on it."""
        if self._lock is None:
            identity: Identity | Failed | Lost = child.ask(
                Identify(self._open.device), START_TIMEOUT_S
            )
            if not isinstance(identity, Identity):
                return identity
            if identity.uuid:
                self._lock = GpuLock(identity.uuid)
                self._lock.acquire(self._patience)
        reply: Opened | Disagreed | Failed | Lost = child.ask(self._open, START_TIMEOUT_S)
        return reply


def start_worker(module: str = "measure.gpu_worker") -> Child:
    """Start a measuring worker, which loads what it needs while its parent does other things."""
    return Child(module, {"TRITON_INTERPRET": None})


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
