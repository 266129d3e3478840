"""A measuring worker for tests: programs run in the interpreter, times come from their text."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import measure.worker
from measure.guard import Guard
from measure.launch import Call, Launcher
from measure.nvml import Reading
from measure.session import Session


class TextTimer:
    """Runs pieces for real and gives each the time that its program's text states."""

    def samples_us(self, piece: Callable[[], None], count: int) -> list[float]:
        return [self.batch_us([piece])[0] for _ in range(count)]

    def batch_us(self, pieces: Sequence[Callable[[], None]]) -> list[float]:
        for piece in pieces:
            piece()
        return [getattr(getattr(piece, "__self__", None), "stated_us", 50.0) for piece in pieces]


class FileWatch:
    """A driver that reports the throttle reasons that a test has written into a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def reading(self) -> Reading:
        return Reading(1980, int(self._path.read_text()))

    def processes(self) -> frozenset[int]:
        return frozenset()

    def working(self) -> dict[int, int]:
        return {}


class CpuSession(Session):
    def _guard(self, watch: object, others: frozenset[int]) -> Guard:
        path = os.environ.get("CPU_WORKER_REASONS")
        return Guard(FileWatch(Path(path)) if path else None)

    @property
    def timer(self) -> TextTimer:  # type: ignore[override]
        return TextTimer()


def prepare(self: Launcher, *arguments: object) -> Call:
    call = _prepare(self, *arguments)  # type: ignore[arg-type]
    stated = re.search(r"# (\d+) us", self.program.source)
    call.stated_us = float(stated[1]) if stated else 10.0  # type: ignore[attr-defined]
    return call


_prepare = Launcher.prepare
Launcher.prepare = prepare  # type: ignore[method-assign,assignment]
measure.worker.Session = CpuSession  # type: ignore[misc]
measure.worker.uuid_of = lambda _: os.environ.get("CPU_WORKER_UUID", "")
handle = measure.worker.Worker().handle
