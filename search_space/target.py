"""What a GPU model offers, as data: never a device query. Times and rates in stated units."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Target:
    """One GPU model. Rates are dense peaks of the data sheet unless the name says measured."""

    name: str
    #: What Triton's GPUTarget takes: "cuda" and 90, or "hip" and "gfx942".
    backend: str
    arch: int | str
    warp_size: int
    #: The name the driver reports, by which a device at hand is matched to this file.
    device_names: tuple[str, ...]
    multiprocessors: int
    #: Dynamic shared memory one block may take, and what one multiprocessor holds.
    shared_memory_per_block_bytes: int
    shared_memory_per_multiprocessor_bytes: int
    registers_per_multiprocessor: int
    max_registers_per_thread: int
    max_threads_per_multiprocessor: int
    l2_bytes: int
    #: Peak of the data sheet, and what a large device-to-device copy reaches (read plus written).
    memory_bytes_per_s: float
    measured_memory_bytes_per_s: float
    #: Peak multiply-add rate (two operations each) by input dtype or precision:
    #: float16, bfloat16, float8_e4m3, int8, tf32, float32.
    operations_per_s: dict[str, float]
    #: What the vendor library sustains, same keys; the analytic model's ceiling.
    measured_operations_per_s: dict[str, float]
    #: Time from launch to first instruction of an empty kernel in a graph, microseconds.
    launch_us: float
    #: Features the code generator may use: "wgmma", "tma", "cp.async", "mma".
    features: tuple[str, ...]

    @property
    def triton_target(self) -> tuple[str, int | str, int]:
        """Backend, architecture and warp size, as Triton's GPUTarget takes them."""
        return self.backend, self.arch, self.warp_size


def names() -> tuple[str, ...]:
    """Return the names of the targets that ship with the package, sorted."""
    folder = resources.files("search_space") / "targets"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".json")))


def load(name: str) -> Target:
    """Return the shipped target called ``name``; KeyError names those that exist."""
    if name not in names():
        raise KeyError(f"target {name!r} is not known; known: {', '.join(names())}")
    text = (resources.files("search_space") / "targets" / f"{name}.json").read_text("utf-8")
    return from_json(text)


def from_json(text: str) -> Target:
    """Read a target from its JSON form (every field of ``Target``, no other)."""
    data = json.loads(text)
    for name in ("device_names", "features"):
        data[name] = tuple(data[name])
    return Target(**data)
