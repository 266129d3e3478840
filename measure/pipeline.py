"""Builds on the CPU and measuring on a device, overlapped. Knows not what measures.

Programs go to the builders at once. Each that has built, or failed to, waits in one queue that a
single thread works off, so the device sees one program at a time. A program is known by its
fingerprint: while one is on its way, or done, others like it wait for its result.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace

from measure.builder import BuilderPool
from measure.job import Built, TritonTarget
from measure.measurement import Failed, Measurement, Timed
from measure.service import OnResult, Pending
from search_space.program import Program

#: Measures one program that has built; the last argument is the time to give up above.
MeasureOne = Callable[[Program, Built, float | None], Measurement]


@dataclass(frozen=True)
class _Wanted:
    """Someone who waits for a program's result."""

    pending: Pending
    index: int


@dataclass(frozen=True)
class _Task:
    program: Program
    abort_above_us: float | None
    built: Future[Built | Failed]


class Closed(RuntimeError):
    """The device was closed while results were pending."""


class Pipeline:
    """Joins a builder pool to a function that measures, run in a thread of its own."""

    def __init__(self, pool: BuilderPool, target: TritonTarget, measure: MeasureOne) -> None:
        self._pool = pool
        self._target = target
        self._measure = measure
        self._ready: queue.SimpleQueue[_Task | Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._known: dict[str, Measurement] = {}
        self._waiting: dict[str, list[_Wanted]] = {}
        self._builds: dict[str, Future[Built | Failed]] = {}
        #: Whether the measuring thread is at work.
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="measure", daemon=True)
        self._thread.start()

    def submit(
        self,
        programs: Sequence[Program],
        abort_above_us: float | None,
        on_result: OnResult | None,
    ) -> Pending:
        """Start what is not known or on its way, and return what will hold the results."""
        pending = Pending(len(programs), on_result)
        known: list[tuple[int, Measurement]] = []
        with self._lock:
            if self._closed:
                raise Closed("the device is closed")
            for index, program in enumerate(programs):
                result = self._enter(program, abort_above_us, _Wanted(pending, index))
                if result is not None:
                    known.append((index, result))
        for index, result in known:
            pending.deliver(index, result)
        return pending

    def run(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the measuring thread, after what is ready now, and wait for it.

        Raises what it raises.
        """
        outcome: Future[None] = Future()

        def carry_out() -> None:
            try:
                action()
            except BaseException as error:  # noqa: BLE001  raised in the caller
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        with self._lock:
            if self._closed:
                raise Closed("the device is closed")
            self._ready.put(carry_out)
        outcome.result()

    def drop(self) -> None:
        """Give up what is pending; builds that have not begun are dropped.

        What is being measured just now is measured to its end, for nobody.
        """
        with self._lock:
            waiting = [wanted for group in self._waiting.values() for wanted in group]
            builds = list(self._builds.values())
            self._waiting.clear()
            self._builds.clear()
        for build in builds:
            build.cancel()
        for wanted in waiting:
            wanted.pending.fail(Closed("the device was closed before the result came"))

    def close(self, interrupt: Callable[[], None] = lambda: None) -> None:
        """Stop; what was pending raises Closed, and builds that have not begun are dropped.

        ``interrupt`` cuts short what is being measured; it is not called where nothing is.
        """
        with self._lock:
            self._closed = True
        self.drop()
        if self._busy:
            interrupt()
        self._ready.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _enter(
        self, program: Program, abort_above_us: float | None, wanted: _Wanted
    ) -> Measurement | None:
        """Return the result if it is known; else wait for it, and start it if nobody has."""
        key = program.fingerprint
        if key in self._known:
            return self._known[key]
        if key in self._waiting:
            self._waiting[key].append(wanted)
            return None
        self._waiting[key] = [wanted]
        task = _Task(program, abort_above_us, self._pool.submit(program, self._target))
        self._builds[key] = task.built
        task.built.add_done_callback(lambda _: self._ready.put(task))
        return None

    def _work(self) -> None:
        while (item := self._ready.get()) is not None:
            self._busy = True
            if isinstance(item, _Task):
                self._finish(item)
            else:
                item()
            self._busy = False

    def _finish(self, task: _Task) -> None:
        key = task.program.fingerprint
        if key not in self._waiting:
            return  # Given up, or measured for another who asked for it again.
        try:
            result = self._result(task)
        except CancelledError:
            return
        except BaseException as error:  # noqa: BLE001  raised where results are asked for
            with self._lock:
                self._builds.pop(key, None)
                waiting = self._waiting.pop(key, [])
            for wanted in waiting:
                wanted.pending.fail(error)
            return
        with self._lock:
            self._builds.pop(key, None)
            self._known[key] = result
            waiting = self._waiting.pop(key, [])
        for wanted in waiting:
            wanted.pending.deliver(wanted.index, result)

    def _result(self, task: _Task) -> Measurement:
        built = task.built.result()
        if isinstance(built, Failed):
            return built
        if self._closed:
            raise CancelledError
        measured = self._measure(task.program, built, task.abort_above_us)
        return with_build(measured, built)


def with_build(measured: Measurement, built: Built) -> Measurement:
    """Add what the build found out to a measurement."""
    if isinstance(measured, Timed):
        return replace(measured, facts=built.facts, build_s=built.build_s)
    return replace(measured, facts=built.facts, build_s=built.build_s)
