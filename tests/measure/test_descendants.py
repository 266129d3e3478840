"""Whatever ends a tuner, five seconds later nothing that it started is alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MARK = "AUTOSCHED_TEST_FAMILY"
#: A tuner with a worker, and a builder whose compiler has started a program of its own, which in
#: its turn has left the builder's standard streams and ignores every polite signal.
PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
sys.path[:0] = sys.argv[2:]
import hand_kernels as kernels
from measure.builder import BuilderPool
from measure.runner import Runner
from search_space import target as targets

w = kernels.workload(16, 32, 48)
good = kernels.pointer_matmul(w, (16, 32, 16))
text = (
    "import signal, subprocess\\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
    "signal.signal(signal.SIGHUP, signal.SIG_IGN)\\n"
    "subprocess.run(['sleep', '600'])\\n"
)
runner = Runner(w, targets.load("h200"), "cpu", timeout_s=100, module="cpu_worker")
pool = BuilderPool(2, timeout_s=300)
pool.submit(kernels.with_source(good, text), ("cuda", 90, 32))
pool.submit(kernels.with_source(good, "while True:\\n    pass\\n"), ("cuda", 90, 32))
print("ready", flush=True)
how = sys.argv[1]
if how == "raises":
    time.sleep(1)
    raise RuntimeError("a fault")
if how == "closes":
    time.sleep(1)
    pool.close()
    runner.close()
    os._exit(0)
time.sleep(600)
"""


def family(mark: str) -> dict[int, str]:
    """Return the living processes that inherited ``mark`` in their environment, by id."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", ["closes", "raises", "SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_is_left(how: str, tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{how}"
    environment = {
        **os.environ,
        MARK: mark,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", PARENT, how, str(HERE), str(ROOT)]
    with (
        (tmp_path / "stderr").open("w") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        ) as parent,
    ):
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "ready\n", (tmp_path / "stderr").read_text()
            if how.startswith("SIG"):
                # The tuner; a worker and two builders, each with a guardian; what a builder began.
                wait_for(lambda: len(family(mark)) == 8, 30)
                assert sum(name.startswith("sleep") for name in family(mark).values()) == 1
                parent.send_signal(getattr(signal, how))
            parent.wait(30)
            wait_for(lambda: not family(mark), 5)
            assert family(mark) == {}
        finally:
            parent.kill()


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
