"""The GPU at hand and the versions that a record's evidence depends on. Launches nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import torch

from autosched.codegen.render import RENDERING_VERSION
from autosched.runtime.catalog import Place
from measure.nvml import driver_version
from measure.record import Provenance
from search_space import target as targets
from search_space.target import Target

#: What is looked up on a machine without a GPU, where nothing can be served anyway.
FALLBACK_TARGET = "h200"


@dataclass(frozen=True, slots=True)
class Setting:
    """Where this process serves. ``gpu`` is None without one; ``target`` is None for a GPU that
    no target describes: torch then serves everything."""

    gpu: str | None
    target: Target | None
    triton: str
    driver: str

    @property
    def place(self) -> Place:
        """What records must match."""
        named = self.target.device_names if self.target else ()
        gpus = (self.gpu,) if self.gpu else named
        return Place(gpus, self.target.name if self.target else None, RENDERING_VERSION)

    def same_tools(self, provenance: Provenance) -> bool:
        """Say whether a record was verified under the versions of Triton and driver at hand.

        An unknown driver on either side counts as another.
        """
        here = (self.triton, self.driver)
        return here == (_public(provenance.triton), provenance.driver) and bool(self.driver)


def setting(target: Target | str | None, name_of_gpu: Callable[[], str | None]) -> Setting:
    """Find out where this process serves. KeyError names the known targets on an unknown name."""
    gpu = name_of_gpu()
    if isinstance(target, str):
        target = targets.load(target)
    if target is None:
        target = _target_of(gpu) if gpu else targets.load(FALLBACK_TARGET)
    return Setting(gpu, target, _public(_triton()), driver_version() if gpu else "")


def current_gpu() -> str | None:
    """Return the name of the current CUDA device, or None without one."""
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


@cache
def gpu_name(device: torch.device) -> str:
    """Return the name of a CUDA device."""
    return str(torch.cuda.get_device_name(device))


def _target_of(gpu: str) -> Target | None:
    for name in targets.names():
        if gpu in (target := targets.load(name)).device_names:
            return target
    return None


def _triton() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


def _public(text: str) -> str:
    """Drop the local part of a version: builds of one version count as the same."""
    return text.partition("+")[0]
