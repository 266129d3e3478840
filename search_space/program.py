"""What a schedule renders to: kernels, their launch plan and the buffers between them.

Data only: knows nothing of compilers, devices or of where the text came from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

BufferRole = Literal["input", "output", "workspace"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that kernels read or write; shape and strides in elements.

    Inputs and the output are the caller's, in the workload's order. A workspace is the
    launcher's. ``zeroed`` buffers must hold zeros before every run; clearing counts as run time.
    ``kept_zero`` buffers must hold zeros before the first run, and every run leaves zeros in them.
    ``constant`` inputs keep their values from run to run.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    role: BufferRole
    zeroed: bool = False
    kept_zero: bool = False
    alignment_bytes: int = 16
    constant: bool = False


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
    ("wgmma", "tma", "cp.async"), which tests look for in the PTX. ``prepares`` says that it reads
    constant inputs alone and writes workspaces that nothing else writes: what it leaves there
    stays right until one of its inputs changes.
    """

    name: str
    source: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    warps: int
    stages: int
    promises: tuple[str, ...] = ()
    prepares: bool = False

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers that it is given, each once."""
        return tuple(dict.fromkeys(argument.buffer for argument in self.arguments))


@dataclass(frozen=True, slots=True)
class Program:
    """Kernels run one after another on one stream, and the buffers they share.

    Raises BadProgram where a kernel is said to prepare that cannot.
    """

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    rendering_version: int
    workload_key: str = field(default="")

    def __post_init__(self) -> None:
        for kernel in self.preparations:
            _check_preparation(self, kernel)

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
    def preparations(self) -> tuple[Kernel, ...]:
        """The kernels that need not run again before a constant input changes."""
        return tuple(kernel for kernel in self.kernels if kernel.prepares)

    @property
    def prepared(self) -> tuple[str, ...]:
        """The inputs that preparations read, in order."""
        used = {name for kernel in self.preparations for name in kernel.buffers}
        return tuple(b.name for b in self.inputs if b.name in used)

    @property
    def source(self) -> str:
        """The text of all kernels, for people."""
        return "\n\n".join(kernel.source for kernel in self.kernels)

    @property
    def fingerprint(self) -> str:
        """16 hex digits over text, launch plan and buffers: equal means the same program."""
        return fingerprint(self)


def fingerprint(part: Program | Kernel | Buffer) -> str:
    """Return 16 hex digits over a program or a part of one.

    What is constant counts where something is: programs without have the digits they always had.
    """
    text = json.dumps(asdict(part, dict_factory=_said), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _said(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {k: v for k, v in items if v is not False or k not in ("constant", "prepares")}


class BadProgram(ValueError):
    """A program that contradicts itself; the message names the kernel and the buffer."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The buffers that one kernel reads and those that it writes, by name."""

    reads: frozenset[str]
    writes: frozenset[str]


def preparing(buffers: Sequence[Buffer], kernels: Sequence[Traffic]) -> tuple[bool, ...]:
    """Say of each kernel of a program whether it prepares: whether it reads constant inputs, and
    nothing else, and writes workspaces, not cleared before runs, that no other kernel writes."""
    constant = {b.name for b in buffers if b.role == "input" and b.constant}
    lasting = {b.name for b in buffers if _lasts(b)}
    writes = Counter(name for kernel in kernels for name in kernel.writes)
    return tuple(
        bool(kernel.reads)
        and kernel.reads <= constant
        and kernel.writes <= lasting
        and all(writes[name] == 1 for name in kernel.writes)
        for kernel in kernels
    )


def _lasts(buffer: Buffer) -> bool:
    return buffer.role == "workspace" and not buffer.zeroed and not buffer.kept_zero


def _check_preparation(program: Program, kernel: Kernel) -> None:
    buffers = {buffer.name: buffer for buffer in program.buffers}
    for name in kernel.buffers:
        buffer = buffers[name]
        if not _lasts(buffer) and not (buffer.role == "input" and buffer.constant):
            raise BadProgram(
                f"{kernel.name} prepares, but {name!r} is neither a constant input nor a "
                "workspace that lasts"
            )
    for other in program.preparations:
        shared = [n for n in other.buffers if n in kernel.buffers and _lasts(buffers[n])]
        if other is not kernel and shared:
            raise BadProgram(f"{kernel.name} and {other.name} both prepare {shared[0]!r}")
