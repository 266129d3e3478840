"""A tuner for ``load(..., on_miss="tune")``: ``autosched tune`` in a process of its own.

So neither a compiler nor a kernel under test can harm the process that serves; what they share is
the log, and the GPU, whose time tuning takes.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autosched.te import text
from search_space.workload import Workload

#: How long a child that is told to end may take, in seconds.
PATIENCE_S = 10.0


class TuningFailed(RuntimeError):
    """The tuner's process ended with another exit code than 0; says its last line."""


class BackgroundTuner:
    """Tunes one workload after another into ``log``, with ``options`` of ``autosched tune``.

    A call returns when the tuner's process has ended; raises TuningFailed where it went wrong and
    IllegalExpression on a workload that no spec states. The process ends with this one.
    """

    def __init__(self, log: str | Path, options: Sequence[str] = ()) -> None:
        self._log = Path(log)
        self._options = tuple(options)
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def __call__(self, workload: Workload) -> None:
        """Tune a workload and wait for it."""
        lines = text.format(workload).splitlines()
        spec = "".join(f"{line}\n" for line in ("workload:", *(f"  {line}" for line in lines)))
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder) / "missed.yaml"
            path.write_text(spec, encoding="utf-8")
            command = ["tune", str(path), "-o", str(self._log), "-q", *self._options]
            self._child = subprocess.Popen(
                [sys.executable, "-m", "autosched.cli.main", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            _, said = self._child.communicate()
        if self._child.returncode != 0:
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise TuningFailed(f"autosched tune ended with {self._child.returncode}: {last}")

    def close(self) -> None:
        """End the tuner's process, if there is one; what it logged is kept."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()


def background_tuner(
    *, log: str | Path, trials: int | None = None, device: str = "auto", options: Sequence[str] = ()
) -> BackgroundTuner:
    """Return a tuner for ``load(log, on_miss="tune", tuner=...)``.

    ``log`` is where it adds what it measures: the log that is served from. ``trials`` bounds
    attempts for each workload, ``device`` is what measures, and ``options`` are further ones of
    ``autosched tune``.
    """
    bound = () if trials is None else ("--trials", str(trials))
    return BackgroundTuner(log, ("--device", device, *bound, *options))
