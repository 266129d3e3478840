"""What this machine offers for building and measuring, as data. What is missing is data too.

Knows nothing of how it is shown. CUDA is asked in a child process, so that a broken driver costs
an answer and not the command.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from measure import nvml
from search_space import target as targets
from search_space.target import Target

PACKAGES = ("torch", "triton", "numpy", "xgboost", "scikit-learn", "filelock", "pydantic")
_PROBE = """
import json, torch
seen = []
if torch.cuda.is_available():
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        seen.append({
            "index": index,
            "name": device.name,
            "arch": device.major * 10 + device.minor,
            "multiprocessors": device.multi_processor_count,
            "memory_bytes": device.total_memory,
            "l2_bytes": getattr(device, "L2_cache_size", 0),
        })
print(json.dumps(seen))
"""
_PROBE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One CUDA device, as torch sees it. ``target`` names the data file that matches it."""

    index: int
    name: str
    #: Ten times the major compute capability plus the minor.
    arch: int
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    target: str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing looked for. ``value`` says what was found; ``missing`` what lacks without it."""

    name: str
    value: str
    missing: str = ""

    @property
    def found(self) -> bool:
        """Whether it is there."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: facts in the order to read them, the GPUs, and their state by NVML."""

    facts: tuple[Fact, ...]
    gpus: tuple[Gpu, ...]
    states: tuple[nvml.GpuState, ...]


def examine(probe: Callable[[], tuple[Gpu, ...] | str] | None = None) -> Report:
    """Look at the machine. ``probe`` returns the GPUs, or why they could not be asked."""
    gpus = (probe or cuda_devices)()
    facts = [
        Fact("python", platform.python_version()),
        Fact("cores", str(len(os.sched_getaffinity(0)))),
        *(_package(name) for name in PACKAGES),
        _c_compiler(),
        _cuobjdump(),
        _cache(),
        _driver(),
        _gpu(gpus),
    ]
    return Report(tuple(facts), () if isinstance(gpus, str) else gpus, nvml.states())


def cuda_devices() -> tuple[Gpu, ...] | str:
    """Return the CUDA devices, or one line on why none could be asked."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the probe did not answer: {error}"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return f"the probe failed: {lines[-1] if lines else done.returncode}"
    return tuple(
        Gpu(**device, target=matching_target(device["name"])) for device in json.loads(done.stdout)
    )


def matching_target(gpu_name: str) -> str | None:
    """Return the name of the target whose data describe a GPU of this name, or None."""
    known: list[Target] = [targets.load(name) for name in targets.names()]
    return next((t.name for t in known if gpu_name in t.device_names), None)


def _package(name: str) -> Fact:
    spellings = ("xgboost", "xgboost-cpu") if name == "xgboost" else (name,)
    for spelling in spellings:
        try:
            return Fact(name, metadata.version(spelling))
        except metadata.PackageNotFoundError:
            continue
    return Fact(name, "", f"not installed: pip install {name}")


def _c_compiler() -> Fact:
    path = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    lacks = "" if path else "Triton needs a C compiler (gcc or clang) to start kernels"
    return Fact("C compiler", path or "", lacks)


def _cuobjdump() -> Fact:
    try:
        root = Path(str(metadata.distribution("triton").locate_file("triton")))
    except metadata.PackageNotFoundError:
        return Fact("cuobjdump", "", "comes with triton")
    path = root / "backends" / "nvidia" / "bin" / "cuobjdump"
    if path.is_file():
        return Fact("cuobjdump", str(path))
    found = shutil.which("cuobjdump")
    lacks = "" if found else "registers and spills of compiled kernels are not known"
    return Fact("cuobjdump", found or "", lacks)


def _cache() -> Fact:
    path = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    place = next(p for p in (path, *path.parents) if p.exists())
    lacks = "" if os.access(place, os.W_OK) else "not writable: every process compiles anew"
    return Fact("Triton's cache", str(path), lacks)


def _driver() -> Fact:
    version = nvml.driver_version()
    lacks = "" if version else "no NVML: driver, clocks and foreign processes are not known"
    return Fact("NVIDIA driver", version, lacks)


def _gpu(gpus: tuple[Gpu, ...] | str) -> Fact:
    if isinstance(gpus, str):
        return Fact("GPU", "", gpus)
    if not gpus:
        return Fact("GPU", "", "no CUDA device: times are predicted, not measured")
    return Fact("GPU", ", ".join(gpu.name for gpu in gpus))
