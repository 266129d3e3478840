"""A child process that answers requests, can be killed at any moment and outlives nobody.

Knows nothing of what is asked. The child leads a session of its own, so that a Ctrl-C at the
terminal reaches the parent alone. Beside it in its process group runs a guardian, forked before
anything heavy is loaded, which waits for the parent's end of a pipe to close and then kills the
group: the child and whatever compiler it has started, however busy they are. A death signal from
the kernel would not do: it fires when the *thread* that started the child ends, and it does not
reach grandchildren.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from measure.channel import Channel, Closed, DeadlinePassed
from measure.job import Fault, Note
from measure.wire import BadMessage


@dataclass(frozen=True, slots=True)
class Lost:
    """A child that did not answer: it ran past its deadline, died of a signal, left by itself, or
    sent garbage.

    ``note`` is the last word it sent before; ``detail`` is one sentence for people.
    """

    reason: Literal["deadline", "died", "exited", "garbage"]
    detail: str
    note: str = ""


class ChildFault(RuntimeError):
    """A fault of ours inside a child; the message is its traceback."""


class Child:
    """A running child that serves ``module.handle``. After ``Lost`` it is dead: start another.

    ``environment`` changes variables (None removes); ``niceness`` lets others go first;
    ``memory_bytes`` bounds the address space of each of its processes, unless it is 0.
    """

    def __init__(
        self,
        module: str,
        environment: Mapping[str, str | None] | None = None,
        *,
        niceness: int = 0,
        memory_bytes: int = 0,
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        self._output = b""
        ours, theirs = socket.socketpair()
        lifeline_read, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "measure.child",
                    module,
                    str(theirs.fileno()),
                    str(lifeline_read),
                    str(niceness),
                    str(memory_bytes),
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(), lifeline_read),
                env=_environment(environment or {}),
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(lifeline_read)
        self._channel = Channel(ours)
        self._alive = True

    @property
    def pid(self) -> int:
        """The process id, which is the id of the process group too."""
        return self._process.pid

    def ask(self, request: Any, timeout_s: float) -> Any:
        """Return the reply to ``request``, or Lost; then the child has been killed.

        Every note from the child starts the deadline anew. Raises ChildFault where the child's
        own code failed, which is a bug.
        """
        note = ""
        try:
            self._channel.send(request)
            while isinstance(reply := self._channel.receive(timeout_s), Note):
                note = reply.text
        except DeadlinePassed:
            self.close()
            return Lost("deadline", f"no answer within {timeout_s:g} s", note)
        except BadMessage as error:
            self.close()
            return Lost("garbage", str(error), note)
        except Closed:
            self._await_end()
            self.close()
            reason: Literal["died", "exited"] = "died" if self._process.returncode < 0 else "exited"
            return Lost(reason, self._epitaph(), note)
        if isinstance(reply, Fault):
            raise ChildFault(reply.text)
        return reply

    def output(self) -> str:
        """Return the end of what the child has written to its standard streams."""
        if not self._stderr.closed:
            size = os.fstat(self._stderr.fileno()).st_size
            self._output = os.pread(self._stderr.fileno(), 16384, max(0, size - 16384))
        return self._output.decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill the child's group from any thread; the owner's ``ask`` then reports it Lost."""
        if self._alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the child and its group, and wait for it. May be called again."""
        if not self._alive:
            return
        self._alive = False
        # The group goes before its leader is reaped: until then its id cannot be another's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        os.close(self._lifeline)
        self._channel.close()
        self._process.wait()
        self.output()
        self._stderr.close()

    def _await_end(self) -> None:
        """Let a child that is going go by itself, so that its own exit status is seen."""
        for _ in range(100):
            if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                return
            time.sleep(0.01)

    def _epitaph(self) -> str:
        code = self._process.returncode
        if code == -signal.SIGKILL:
            cause = "the process was killed"
        elif code < 0:
            cause = f"the process died of {signal.Signals(-code).name}"
        else:
            cause = f"the process ended with exit code {code}"
        last = last_line(self.output())
        return f"{cause}: {last}" if last else cause


def first_line(text: str) -> str:
    """Return the first line of ``text`` that says something, shortened to 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def last_line(text: str) -> str:
    """Return the last line of ``text`` that says something, shortened to 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t^~")]
    return lines[-1][:300] if lines else ""


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return this process's environment with ``changes`` (None removes), and our packages found."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    merged: dict[str, str | None] = {**os.environ, "PYTHONPATH": path, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _guard(lifeline: int, channel: int) -> None:
    """Fork the guardian. It holds nothing but the lifeline and kills the group when that ends."""
    if os.fork():
        os.close(lifeline)
        return
    os.close(channel)
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def serve(channel: Channel, handle: Callable[[Any, Callable[[str], None]], Any]) -> None:
    """Answer requests until the parent goes. ``handle(request, note)`` makes each reply."""

    def note(text: str) -> None:
        channel.send(Note(text))

    while True:
        try:
            request = channel.receive()
        except Closed:
            return
        os.lseek(2, 0, os.SEEK_SET)
        os.ftruncate(2, 0)
        try:
            reply = handle(request, note)
        except Exception:  # noqa: BLE001  reported to the parent as a fault of ours
            reply = Fault(traceback.format_exc())
        channel.send(reply)


def main(module: str, channel_fd: int, lifeline_fd: int, niceness: int, memory_bytes: int) -> None:
    """Run as a child: guard, load ``module``, serve its ``handle``.

    Where the machine runs out of memory the kernel ends a child before it ends anybody else, and
    ``memory_bytes``, unless 0, bounds what the child and each process that it starts may map.
    """
    os.nice(niceness)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.set_inheritable(channel_fd, False)
    os.set_inheritable(lifeline_fd, False)
    _guard(lifeline_fd, channel_fd)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    handle = importlib.import_module(module).handle
    serve(Channel(socket.socket(fileno=channel_fd)), handle)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
