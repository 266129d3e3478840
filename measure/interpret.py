"""Check a program in Triton's interpreter, without a GPU.

Knows nothing of how programs come about. One child process with the interpreter switched on is
started at the first check and used again. The interpreter forms bfloat16 dots wrongly: check
such programs in float16 and float32.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping

from measure.child import Child, Lost
from measure.job import Disagreed, Open, Opened, Verify
from measure.measurement import Evidence, Failed, Failure
from measure.service import BadReference
from search_space.program import Program
from search_space.workload import Workload

_ENVIRONMENT: Mapping[str, str | None] = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}


class Interpreter:
    """One child process that checks programs of any workload, one at a time."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._open: tuple[Workload, int] | None = None
        self._lock = threading.Lock()

    def check(
        self, workload: Workload, program: Program, seed: int, timeout_s: float
    ) -> Evidence | Failed:
        """Run the program on random data and on small integers; return what came of it."""
        with self._lock:
            lost = self._ready(workload, seed, timeout_s)
            reply = lost or self._ask(Verify(program), timeout_s)
            if isinstance(reply, Lost):
                self._drop()
                kind = Failure.TIMEOUT if reply.reason == "deadline" else Failure.RUNTIME
                return Failed(kind, f"in the interpreter: {reply.detail}")
        assert isinstance(reply, Evidence | Failed)  # noqa: S101  what a Verify is answered with
        return reply

    def close(self) -> None:
        """End the child. A later check starts another."""
        with self._lock:
            self._drop()

    def _ready(self, workload: Workload, seed: int, timeout_s: float) -> Lost | None:
        """Give the child the workload, unless it has it."""
        if self._open == (workload, seed):
            return None
        reply = self._ask(Open(workload, None, "cpu", (seed,)), timeout_s)
        if isinstance(reply, Opened):
            self._open = (workload, seed)
            return None
        if isinstance(reply, Disagreed):
            raise BadReference(reply.text)
        assert isinstance(reply, Lost)  # noqa: S101  what an Open is answered with
        return reply

    def _ask(self, request: Open | Verify, timeout_s: float) -> object:
        if self._child is None:
            self._child = Child("measure.worker", _ENVIRONMENT)
        return self._child.ask(request, timeout_s)

    def _drop(self) -> None:
        self._open = None
        if self._child is not None:
            self._child.close()
            self._child = None


_interpreter = Interpreter()
atexit.register(_interpreter.close)


def check(
    workload: Workload, program: Program, seed: int, timeout_s: float = 120.0
) -> Evidence | Failed:
    """Check a program against the reference in the interpreter, on two sets of data."""
    return _interpreter.check(workload, program, seed, timeout_s)
