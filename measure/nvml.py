"""What the NVIDIA driver says of itself and its devices, where its library is installed.

Knows nothing of CUDA. Everything may be missing; what is missing is an empty value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


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
