"""What a schedule renders to: kernels, their launch plan and the buffers between them.

Data only: knows nothing of compilers, devices or of where the text came from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Literal

BufferRole = Literal["input", "output", "workspace"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that kernels read or write; shape and strides in elements.

    Inputs and the output are the caller's, in the workload's order. A workspace is the
    launcher's. ``zeroed`` buffers must hold zeros before every run; clearing counts as run time.
    ``kept_zero`` buffers must hold zeros before the first run, and every run leaves zeros in them.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    role: BufferRole
    zeroed: bool = False
    kept_zero: bool = False
    alignment_bytes: int = 16


@dataclass(frozen=True, slots=True)
class PointerArgument:
    """A kernel argument that is a buffer's address."""

    buffer: str


@dataclass(frozen=True, slots=True)
class DescriptorArgument:
    """A kernel argument that is a tensor descriptor: a view of a buffer cut into boxes.

    ``shape``, ``strides`` (elements; the last is 1) and ``block`` have the view's rank.
    """

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]


Argument = PointerArgument | DescriptorArgument


@dataclass(frozen=True, slots=True)
class Kernel:
    """One Triton function with its launch plan.

    ``source`` is a whole module that defines the function ``name``; its parameters are
    ``arguments`` in order, nothing else. ``promises`` names what the compiled code must hold
    ("wgmma", "tma", "cp.async"), which tests look for in the PTX.
    """

    name: str
    source: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    warps: int
    stages: int
    promises: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Kernels run one after another on one stream, and the buffers they share."""

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    rendering_version: int
    workload_key: str = field(default="")

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The caller's inputs in order."""
        return tuple(b for b in self.buffers if b.role == "input")

    @property
    def output(self) -> Buffer:
        """The caller's output."""
        return next(b for b in self.buffers if b.role == "output")

    @property
    def workspaces(self) -> tuple[Buffer, ...]:
        """Scratch buffers that the launcher provides."""
        return tuple(b for b in self.buffers if b.role == "workspace")

    @property
    def source(self) -> str:
        """The text of all kernels, for people."""
        return "\n\n".join(kernel.source for kernel in self.kernels)

    @property
    def fingerprint(self) -> str:
        """16 hex digits over text, launch plan and buffers: equal means the same program."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
