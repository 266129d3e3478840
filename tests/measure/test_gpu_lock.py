"""One tuner on a GPU at a time: the second waits and says so; what the dead held is free."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from measure.gpu_lock import SAY_EVERY_S, GpuLock, runtime_folder
from measure.service import GpuBusy, NoDevice, Patience

ROOT = Path(__file__).parents[2]
GPU = "GPU-1234"
HOLDER = """
import sys
from pathlib import Path
from measure.gpu_lock import GpuLock
GpuLock(sys.argv[1], Path(sys.argv[2])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, gpu: str = GPU) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, gpu, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_second_says_that_it_waits_and_then_that_it_is_busy(tmp_path: Path) -> None:
    said: list[str] = []
    time = Time()
    with holder(tmp_path) as process:
        lock = GpuLock(GPU, tmp_path)
        with pytest.raises(GpuBusy) as caught:
            lock.acquire(Patience(12.0, said.append), clock=time.clock, pause=time.pause)
    name = f"process {process.pid} (-c)"
    assert str(caught.value) == f"{GPU} is measured on by {name}, for 12 s by now"
    assert said == [f"{GPU} is measured on by {name}: waiting for it"] * 3
    assert SAY_EVERY_S == 5.0
    assert isinstance(caught.value, NoDevice)


def test_the_second_gets_it_when_the_first_dies(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        lock = GpuLock(GPU, tmp_path)

        def kill(_: float) -> None:
            process.kill()
            process.wait()

        lock.acquire(Patience(60.0, lambda _: None), pause=kill)
        lock.release()


def test_waiting_is_logged_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    with holder(tmp_path), caplog.at_level(logging.WARNING), pytest.raises(GpuBusy):
        GpuLock(GPU, tmp_path).acquire(Patience(1.0), clock=time.clock, pause=time.pause)
    assert "waiting for it" in caplog.text


def test_another_gpu_is_another_lock(tmp_path: Path) -> None:
    with holder(tmp_path, "GPU-5678"):
        lock = GpuLock(GPU, tmp_path)
        lock.acquire(Patience(0.0))
        lock.release()


def test_sessions_of_one_process_share_it_until_the_last_ends(tmp_path: Path) -> None:
    first, second = GpuLock(GPU, tmp_path), GpuLock(GPU, tmp_path)
    first.acquire()
    second.acquire()
    first.release()
    first.release()
    command = [sys.executable, "-c", HOLDER, GPU, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        assert f"process {os.getpid()} " in waiting.stderr.readline()
        second.release()
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "held\n"
        waiting.kill()


def test_a_lock_file_cannot_lead_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / f"gpu-{GPU}.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        GpuLock(GPU, tmp_path).acquire()
    assert (tmp_path / "precious").read_text() == "mine"


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime_folder() == tmp_path / "autosched"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = runtime_folder()
    assert folder == tmp_path / f"autosched-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
