"""One tuner on a GPU at a time: a lock by the GPU's id. Knows neither CUDA nor what is measured.

The lock is a file that the kernel releases when its holder dies, in a folder of the user's own.
It is held for a whole session, not for each measurement: a second tuner between two measurements
would leave its heat, its memory and its context behind, and every time would depend on it. Several
sessions of one process share the lock; that process knows what it does.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from measure.service import GpuBusy, Patience

#: How long a second tuner waits, and how often it says so.
WAIT_S = 600.0
SAY_EVERY_S = 5.0
_POLL_S = 0.2

_log = logging.getLogger(__name__)
#: File descriptors of the locks that this process holds, and how many sessions share each.
_held: dict[Path, tuple[int, int]] = {}
_guard = threading.Lock()


class GpuLock:
    """Holds the lock of one GPU from ``acquire`` to ``release``. ``gpu`` is the GPU's UUID.

    ``folder`` is where the locks lie. Raises OSError where it cannot be made.
    """

    def __init__(self, gpu: str, folder: Path | None = None) -> None:
        self._path = (folder or runtime_folder()) / f"gpu-{Path(gpu).name}.lock"
        self._gpu = gpu
        self._mine = False

    def acquire(
        self,
        patience: Patience = Patience(),  # noqa: B008  frozen
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the lock; who is told learns at once, and every few seconds, whom we wait for.

        Raises GpuBusy when the patience is at its end.
        """
        wait_s = WAIT_S if patience.wait_s is None else patience.wait_s
        on_wait = patience.on_wait or _log.warning
        begun_s = clock()
        said_s = float("-inf")
        while not self._take():
            now_s = clock()
            if now_s - begun_s >= wait_s:
                raise GpuBusy(
                    f"{self._gpu} is measured on by {self._holder()}, for {wait_s:g} s by now"
                )
            if now_s - said_s >= SAY_EVERY_S:
                on_wait(f"{self._gpu} is measured on by {self._holder()}: waiting for it")
                said_s = now_s
            pause(_POLL_S)

    def release(self) -> None:
        """Give the lock back if it is held. May be called again."""
        with _guard:
            if not self._mine:
                return
            self._mine = False
            descriptor, sessions = _held.pop(self._path)
            if sessions > 1:
                _held[self._path] = (descriptor, sessions - 1)
            else:
                os.close(descriptor)

    def _take(self) -> bool:
        with _guard:
            if self._mine:
                return True
            descriptor, sessions = _held.get(self._path, (-1, 0))
            if not sessions:
                descriptor = _lock(self._path)
            if descriptor < 0:
                return False
            _held[self._path] = (descriptor, sessions + 1)
            self._mine = True
            return True

    def _holder(self) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self._path.read_text("utf-8").strip() or "another process"
        return "another process"


def _lock(path: Path) -> int:
    """Return the descriptor of the locked file, which names us, or -1 if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        name = Path(sys.argv[0]).name or "python"
        os.pwrite(descriptor, f"process {os.getpid()} ({name})\n".encode(), 0)
    except BlockingIOError:
        os.close(descriptor)
        return -1
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def runtime_folder() -> Path:
    """Return the user's own folder for what lasts as long as processes do, made if missing.

    $XDG_RUNTIME_DIR, or a folder by the user's id among the temporary files. Raises
    PermissionError where that folder belongs to somebody else.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and os.access(given, os.W_OK):
        folder = Path(given) / "autosched"
    else:
        folder = Path(tempfile.gettempdir()) / f"autosched-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder
