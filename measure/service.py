"""What measures: programs in, measurements out. Knows neither schedules nor search.

``submit`` returns at once: builds start, and measuring follows as they end, while the caller
goes on. Several submissions may be pending; they share the builders and the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol

from measure.comparison import Comparison
from measure.measurement import Measurement
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

if TYPE_CHECKING:
    # The crew starts devices, and devices import this module.
    from measure.crew import Crew

#: A build may take this long until others have shown what builds take here.
BUILD_TIMEOUT_S = 60.0

OnResult = Callable[[int, Measurement], None]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What measures, for records. Versions are texts; an empty one was not to be had.

    ``predicted`` says that a model makes its times up. ``rendering_version`` is that of the texts
    that were measured, where it is not today's.
    """

    kind: Literal["cuda", "model", "replay", "fake"]
    gpu_name: str
    target_name: str
    driver: str = ""
    torch: str = ""
    triton: str = ""
    predicted: bool = False
    rendering_version: int | None = None


class NoDevice(RuntimeError):
    """There is no such device, or it does not answer; the message says which and why."""


class GpuBusy(NoDevice):
    """Another tuner measures on the GPU and has not ended in time; the message names it."""


class BadReference(NoDevice):
    """Two references for one workload disagree, so nothing can be verified; names both."""


class Pending:
    """Measurements on their way. ``on_result`` is called once each, from any thread, in the order
    in which they come; if it raises, ``results`` raises the same."""

    def __init__(self, count: int, on_result: OnResult | None = None) -> None:
        self._results: list[Measurement | None] = [None] * count
        self._missing = count
        self._on_result = on_result
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def done(self) -> bool:
        """Whether every result is there."""
        with self._changed:
            return self._missing == 0 or self._error is not None

    def results(self, timeout_s: float | None = None) -> list[Measurement]:
        """Wait for all, and return them in the order of submission. TimeoutError after a time."""
        with self._changed:
            if not self._changed.wait_for(self._settled, timeout_s):
                raise TimeoutError(f"{self._missing} measurements are missing")
            if self._error is not None:
                raise self._error
            return [result for result in self._results if result is not None]

    def deliver(self, index: int, result: Measurement) -> None:
        """Hand in one result. Called by the device."""
        try:
            if self._on_result is not None:
                self._on_result(index, result)
        except BaseException as error:  # noqa: BLE001  raised where results are asked for
            self.fail(error)
        with self._changed:
            self._results[index] = result
            self._missing -= 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Make ``results`` raise: the device has gone, or a bug. Called by the device."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _settled(self) -> bool:
        return self._missing == 0 or self._error is not None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for another tuner to leave the GPU, and who is told; None: the default."""

    wait_s: float | None = None
    on_wait: Callable[[str], None] | None = None


class Service(Protocol):
    """One device with its builders, for one workload. A context manager."""

    @property
    def device(self) -> DeviceInfo:
        """What measures."""

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        """Start building and measuring; return at once.

        Programs of equal fingerprint are measured once and share the result. A program found
        slower than ``abort_above_us`` by a first quick look gets that look's time.
        """

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int = 50
    ) -> Comparison:
        """Time programs in turns with each other and with the library; waits for pending work.

        Data are fresh for each of several seeds, the order is shuffled in every round. An entrant
        that fails is dropped and named.
        """

    def drop(self) -> None:
        """Give up what is pending: its results raise, and builds that have not begun never do."""

    def close(self) -> None:
        """End every process. Pending results raise. May be called again."""

    def __enter__(self) -> Service:
        """Return itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""


def open_service(
    workload: Workload,
    target: Target,
    device: str,
    *,
    predict: Callable[[Program], float] | None = None,
    workers: int | None = None,
    timeout_s: float = 10.0,
    build_timeout_s: float = BUILD_TIMEOUT_S,
    seed: int = 0,
    wait_s: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    crew: Crew | None = None,
) -> Service:
    """Open what measures programs of ``workload``.

    ``device`` is "cuda" or "cuda:N" for a GPU, or "model", which compiles for ``target`` and
    takes the microseconds from ``predict`` and runs nothing. ``timeout_s`` bounds each run,
    ``build_timeout_s`` each build. Where another process measures on the GPU, ``on_wait`` is told
    every few seconds for up to ``wait_s``; by default a log message, and ``gpu_lock.WAIT_S``.
    ``crew`` lends processes, so that one workload after another does not start its own; then it is
    the crew that bounds ``workers``.
    Raises NoDevice, GpuBusy and BadReference among them.
    """
    # Devices import this module, so they are imported where one is wanted.
    if device == "model":
        from measure.model_device import ModelDevice

        if predict is None:
            raise NoDevice("device model: it takes its times from a prediction, and none is given")
        return ModelDevice(target, predict, workers=workers, timeout_s=build_timeout_s, crew=crew)
    if device == "cuda" or device.startswith("cuda:"):
        from measure.cuda_device import CudaDevice

        return CudaDevice(
            workload,
            target,
            device,
            workers=workers,
            timeout_s=timeout_s,
            build_timeout_s=build_timeout_s,
            seed=seed,
            patience=Patience(wait_s, on_wait),
            crew=crew,
        )
    raise NoDevice(f"device {device!r} is not known; known: cuda, cuda:N, model")
