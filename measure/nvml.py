"""What the NVIDIA driver says of itself and its devices, where its library is installed.

Knows nothing of CUDA. Everything may be missing; what is missing is an empty value.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: The reasons for a lower clock that spoil a time, by NVML's bits (nvmlClocksEventReasons). The
#: others belong to a healthy device: idle, clocks set by hand, the software power cap, which every
#: large matmul on an H200 runs into, and boost kept in step with other devices.
THROTTLES: Mapping[int, str] = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
IDLE = 0x01
POWER_CAP = 0x04


@dataclass(frozen=True, slots=True)
class GpuState:
    """One device as NVML sees it. Clocks in MHz, temperature in degrees Celsius."""

    index: int
    name: str
    sm_clock_mhz: int
    max_sm_clock_mhz: int
    memory_clock_mhz: int
    temperature_c: int
    #: The reasons that hold the clocks down, as NVML's bit mask; 0 or 1 (idle) is none.
    throttle_reasons: int
    #: Processes with a compute context, this one among them.
    processes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The SM clock in MHz, 0 where it is not known, and NVML's mask of what holds it down."""

    sm_clock_mhz: int
    reasons: int

    @property
    def throttles(self) -> tuple[str, ...]:
        """Those of the reasons that spoil a time, by name."""
        return tuple(name for bit, name in THROTTLES.items() if self.reasons & bit)


class GpuWatch:
    """One device, kept open to be read often. Reads nothing where NVML or the device is missing.

    ``uuid`` is the device's, as NVML spells it.
    """

    def __init__(self, uuid: str) -> None:
        self._nvml, self._handle = _open(uuid)
        #: The driver's time stamp of the last look at what processes used.
        self._seen_us = 0

    @property
    def works(self) -> bool:
        """Whether there is anything to read."""
        return self._handle is not None

    def reading(self) -> Reading:
        """Return clock and reasons. Two calls of the driver."""
        if not self.works:
            return Reading(0, 0)
        clock = self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)
        return Reading(clock or 0, self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0)

    def processes(self) -> frozenset[int]:
        """Return the ids of processes with a compute context; a container may hide all of them."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses") if self.works else None
        return frozenset(int(process.pid) for process in found or ())

    def working(self) -> Mapping[int, int]:
        """Return the largest share of the SMs in percent, by process, since the last call."""
        samples = self._ask("nvmlDeviceGetProcessUtilization", self._seen_us) if self.works else ()
        shares: dict[int, int] = {}
        for sample in samples or ():
            if sample.timeStamp > self._seen_us and sample.smUtil <= 100:
                shares[sample.pid] = max(shares.get(sample.pid, 0), int(sample.smUtil))
        stamps = [int(sample.timeStamp) for sample in samples or ()]
        self._seen_us = max([self._seen_us, *stamps])
        return shares

    def _ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


def own_ids(now: frozenset[int], before: frozenset[int]) -> frozenset[int]:
    """Return by which ids the driver knows this process.

    Its own id, or where a container gives it another, what came since ``before`` it took the
    device. Empty where the driver hides processes.
    """
    return frozenset({os.getpid()}) if os.getpid() in now else now - before


def _open(uuid: str) -> tuple[Any, Any]:
    """Return the library, left initialised, and the device's handle; None for what is missing."""
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        with contextlib.suppress(pynvml.NVMLError):
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
        if pynvml.nvmlDeviceGetCount() == 1:
            # A virtual device may go by another id than CUDA's.
            return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    except pynvml.NVMLError:
        pass
    return pynvml, None


def driver_version() -> str:
    """Return the driver's version, or an empty text."""
    with _nvml() as nvml:
        return str(nvml.nvmlSystemGetDriverVersion()) if nvml else ""


def states() -> tuple[GpuState, ...]:
    """Return the state of every device NVML knows; none without NVML."""
    with _nvml() as nvml:
        if nvml is None:
            return ()
        return tuple(_state(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))


@contextmanager
def _nvml() -> Iterator[Any]:
    """Yield the initialised library, or None."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _state(nvml: Any, index: int) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(function: str, *arguments: Any) -> int:
        try:
            return int(getattr(nvml, function)(handle, *arguments))
        except nvml.NVMLError:
            return 0

    try:
        processes = len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except nvml.NVMLError:
        processes = 0
    return GpuState(
        index,
        str(nvml.nvmlDeviceGetName(handle)),
        ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        processes,
    )
