"""A pool of processes that compile programs. Needs no GPU and knows nothing of measuring.

A build past its deadline is killed and its worker replaced; a worker that crashes, aborts or
leaves costs the one program it was given.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from statistics import median

from measure.child import Child, Lost
from measure.closing import Closing
from measure.job import Build, Built, CompileText, Texts, TritonTarget
from measure.measurement import Cause, Failed, Failure
from search_space.program import Program

#: The compilers never run kernels, whatever this process does.
_ENVIRONMENT: Mapping[str, str | None] = {"TRITON_INTERPRET": None, "OMP_NUM_THREADS": "1"}
#: The process that times kernels goes before those that compile them.
_NICENESS = 10
#: What a compiler may map. A large kernel takes below 2 GiB.
_MEMORY_BYTES = 16 << 30
#: A build is given up after so many times what builds take here, and never before so long.
_SLOW_FACTOR = 20.0
_LEAST_PATIENCE_S = 10.0
_RECENT = 64
_Job = tuple[Build | CompileText, "Future[Built | Failed | Texts]"]


class BuildError(RuntimeError):
    """A program that did not compile where its text was asked for."""


class BuilderPool(Closing):
    """Worker processes, each driven by a thread that owns it. A context manager.

    ``timeout_s`` bounds each build. Once builds have shown what they take on this machine, one
    that takes 20 times as long as they do, and more than 10 s, is given up before that: a batch
    waits for its last build.
    """

    def __init__(
        self,
        workers: int | None = None,
        timeout_s: float = 60.0,
        module: str = "measure.build_worker",
    ) -> None:
        #: Bounds each build that starts from now on.
        self.timeout_s = timeout_s
        self._module = module
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._children: dict[int, Child] = {}
        self._lock = threading.Lock()
        self._recent_s: deque[float] = deque(maxlen=_RECENT)
        count = workers or os.cpu_count() or 1
        self._threads = [
            threading.Thread(target=self._work, args=(n,), name=f"builder-{n}", daemon=True)
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, program: Program, triton_target: TritonTarget) -> Future[Built | Failed]:
        """Queue a program; the future holds Built or Failed, never an exception of the build."""
        return self._submit(Build(program, triton_target))  # type: ignore[return-value]

    def build(self, program: Program, triton_target: TritonTarget) -> Built | Failed:
        """Compile a program and wait for it."""
        return self.submit(program, triton_target).result()

    def text(
        self, program: Program, triton_target: TritonTarget
    ) -> Mapping[str, Mapping[str, str]]:
        """Return the compiler's levels by kernel and level; raises BuildError with the reason."""
        reply = self._submit(CompileText(program, triton_target)).result()
        if isinstance(reply, Texts):
            return reply.kernels
        raise BuildError(reply.detail if isinstance(reply, Failed) else "no text came back")

    def close(self) -> None:
        """Drop what waits, kill the workers and join the threads. May be called again."""
        self._closing.set()
        for _ in self._threads:
            self._jobs.put(None)
        with self._lock:
            for child in self._children.values():
                child.kill()
        for thread in self._threads:
            thread.join()

    def _submit(self, request: Build | CompileText) -> Future[Built | Failed | Texts]:
        future: Future[Built | Failed | Texts] = Future()
        if self._closing.is_set():
            raise RuntimeError("the builder pool is closed")
        self._jobs.put((request, future))
        return future

    def _work(self, slot: int) -> None:
        """Serve jobs with a child of this thread's own, started ahead, until the pool closes."""
        with suppress(CancelledError):
            self._child(slot)
        while (job := self._jobs.get()) is not None:
            request, future = job
            if self._closing.is_set():
                future.cancel()
            elif future.set_running_or_notify_cancel():
                self._answer(slot, request, future)
        self._drop(slot)

    def _answer(
        self, slot: int, request: Build | CompileText, future: Future[Built | Failed | Texts]
    ) -> None:
        timeout_s = patience_s(tuple(self._recent_s), self.timeout_s)
        try:
            reply = self._child(slot).ask(request, timeout_s)
        except Exception as error:  # noqa: BLE001  handed to whoever waits
            future.set_exception(error)
            return
        if isinstance(reply, Lost):
            self._drop(slot)
            reply = _failure(reply, timeout_s)
        elif isinstance(reply, Built):
            self._recent_s.append(reply.build_s)
        future.set_result(reply)

    def _child(self, slot: int) -> Child:
        with self._lock:
            if self._closing.is_set():
                raise CancelledError
            if slot not in self._children:
                self._children[slot] = Child(
                    self._module, _ENVIRONMENT, niceness=_NICENESS, memory_bytes=_MEMORY_BYTES
                )
            return self._children[slot]

    def _drop(self, slot: int) -> None:
        with self._lock:
            child = self._children.pop(slot, None)
        if child is not None:
            child.close()


def patience_s(recent_s: Sequence[float], most_s: float) -> float:
    """Return how long to wait for a build, after ``recent_s``, the seconds that others took."""
    if len(recent_s) < _RECENT // 4:
        return most_s
    return min(most_s, max(_LEAST_PATIENCE_S, _SLOW_FACTOR * median(recent_s)))


#: Why a process broke, by the reason of its Lost.
CAUSES: Mapping[str, Cause] = {
    "died": Cause.DIED,
    "exited": Cause.EXITED,
    "garbage": Cause.GARBAGE,
}


def _failure(lost: Lost, timeout_s: float) -> Failed:
    if lost.reason == "deadline":
        detail = f"the build took more than {timeout_s:.3g} s"
        return Failed(Failure.TIMEOUT, detail, build_s=timeout_s, cause=Cause.BUILD_DEADLINE)
    detail = f"the compiler broke: {lost.detail}"
    return Failed(Failure.COMPILE, detail, cause=CAUSES[lost.reason])


def build(program: Program, triton_target: TritonTarget, timeout_s: float = 60.0) -> Built | Failed:
    """Compile one program in a process of its own."""
    with BuilderPool(1, timeout_s) as pool:
        return pool.build(program, triton_target)


def compile_text(
    program: Program, triton_target: TritonTarget, timeout_s: float = 60.0
) -> Mapping[str, Mapping[str, str]]:
    """Return ttir, ttgir, llir, ptx and sass (amdgcn for AMD) by kernel name and level.

    Raises BuildError with the reason where the program does not compile.
    """
    with BuilderPool(1, timeout_s) as pool:
        return pool.text(program, triton_target)
