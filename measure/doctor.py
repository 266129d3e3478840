"""What this machine offers for building and measuring, as data. What is missing is data too.

Knows nothing of how it is shown. CUDA is asked in a child process, so that a broken driver costs
an answer and not the command.
"""

from __future__ import annotations

import json
import os
import platform
import re
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
#: Asks the driver itself: loading torch for it would take seconds at the start of every command.
#: CUDA_VISIBLE_DEVICES holds for it as it does for torch.
_PROBE = """
import ctypes, json

def number(attribute):
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    return value.value

seen = []
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    cuda = None
count = ctypes.c_int()
if cuda is not None and cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for index in range(count.value):
        device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, 256, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        seen.append({
            "index": index,
            "name": name.value.decode(),
            "arch": number(75) * 10 + number(76),
            "multiprocessors": number(16),
            "memory_bytes": memory.value,
            "l2_bytes": number(38),
        })
print(json.dumps(seen))
"""
_PROBE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One CUDA device, as its driver sees it. ``target`` names the data file that matches it."""

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
    if _torch_without_cuda():
        return ()
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


def _torch_without_cuda() -> bool:
    """Whether torch is a build for the CPU alone, from its files: it is not loaded."""
    try:
        text = Path(str(metadata.distribution("torch").locate_file("torch/version.py"))).read_text()
    except (metadata.PackageNotFoundError, OSError):
        return False
    return re.search(r"^cuda\b.*=\s*None\s*$", text, re.MULTILINE) is not None


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
