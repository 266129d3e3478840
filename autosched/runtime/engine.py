"""A way to compute a workload made ready on one device. Knows no log and picks nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch

from autosched.runtime.packs import Packs
from autosched.runtime.proof import objection
from autosched.runtime.scratch import Scratch
from autosched.runtime.served import Served
from measure import cuda
from measure.builder import build
from measure.compiler import identity
from measure.job import TritonTarget
from measure.launch import Launcher, current_stream
from measure.library import LibraryCall, library_call
from measure.measurement import Failed
from measure.tensor import TORCH_DTYPES, empty, storage_elements
from search_space.program import Buffer, Program, fingerprint
from search_space.target import Target
from search_space.workload import Workload

#: Sets of addresses for which an engine keeps arguments; beyond, the older half goes.
MOST_BINDINGS = 1024
#: What was built here, by all that a binary depends on: one per bucket of extents, not per extent.
_built: set[tuple[object, TritonTarget]] = set()
#: Queues one thing on a stream, given as the driver's handle.
_Step = Callable[[int], None]


class Engine(Protocol):
    """Computes one workload on one device, on its current stream."""

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        """Return the output, allocated unless it is given. Inputs lie as the workload says."""


class KernelEngine:
    """Runs a program through the launcher that measured it; keeps what it prepared in ``packs``.

    Inputs and output must be what the workload says: they are not looked at. Where kernels start
    from addresses alone their arguments are laid out once for the addresses of a call, and found
    again when those come again: how an argument lies depends on nothing else.
    """

    def __init__(self, launcher: Launcher, packs: Packs) -> None:
        self._launcher = launcher
        self._packs = packs
        self._device = launcher.device
        program = launcher.program
        self._output = program.output
        named = {buffer.name: buffer for buffer in program.buffers}
        #: Each preparation, the inputs that it reads, and what tells its results apart.
        self._preparations = [
            (
                kernel,
                [name for name in kernel.buffers if named[name].role == "input"],
                (fingerprint(kernel), *(fingerprint(named[name]) for name in kernel.buffers)),
            )
            for kernel in program.preparations
        ]
        packed = {name for kernel in program.preparations for name in kernel.buffers}
        workspaces = [buffer for buffer in program.workspaces if buffer.name not in packed]
        self._scratch = Scratch(workspaces, self._device)
        self._names = [b.name for b in (*program.inputs, program.output)]
        self._clears = [
            (buffer.name, _dense_bytes(buffer)) for buffer in program.buffers if buffer.zeroed
        ]
        #: Whether a call is its addresses: no tensor but inputs and output takes part in it.
        self.by_address = launcher.binds_addresses and all(size for _, size in self._clears)
        self.plain = self.by_address and not self._preparations and not workspaces
        #: Whether ``start`` needs no tensors beside the addresses.
        self.needs_addresses_alone = self.by_address and not self._preparations
        self._bindings: dict[tuple[int, ...], tuple[_Step, ...]] = {}
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        """Bind, start and return the output. What was prepared of the same inputs serves again."""
        if not self.by_address:
            call = self._launcher.prepare(inputs, output, self._prepared(inputs))
            call.repeat()
            return call.output
        if output is None:
            output = empty(self._output, self._device)
        addresses = [tensor.data_ptr() for tensor in inputs]
        self.start((*addresses, output.data_ptr()), inputs)
        return output

    def start(self, addresses: tuple[int, ...], inputs: Sequence[torch.Tensor] = ()) -> None:
        """Start on buffers at ``addresses``, inputs in order and then the output, on the current
        stream. ``inputs`` are looked at unless it ``needs_addresses_alone``."""
        if torch.cuda.current_device() != self._device.index:
            with torch.cuda.device(self._device):
                self.start(addresses, inputs)
            return
        stream = current_stream(self._device)
        names: Sequence[str] = self._names
        if not self.plain:
            more = {**self._prepared(inputs), **self._scratch.get(stream)}
            addresses = (*addresses, *(tensor.data_ptr() for tensor in more.values()))
            names = (*names, *more)
        steps = self._bindings.get(addresses)
        if steps is None:
            steps = self._bound(dict(zip(names, addresses, strict=True)), addresses)
        for step in steps:
            step(stream)

    def _bound(self, named: dict[str, int], key: tuple[int, ...]) -> tuple[_Step, ...]:
        clears: list[_Step] = [
            partial(cuda.driver().clear, named[name], length) for name, length in self._clears
        ]
        steps = (*clears, *(binding.start for binding in self._launcher.bind(named)))
        with self._lock:
            if len(self._bindings) >= MOST_BINDINGS:
                for old in list(self._bindings)[: MOST_BINDINGS // 2]:
                    del self._bindings[old]
            self._bindings[key] = steps
        return steps

    def _prepared(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        if not self._preparations:
            return {}
        named = {b.name: t for b, t in zip(self._launcher.program.inputs, inputs, strict=True)}
        made: dict[str, torch.Tensor] = {}
        for kernel, reads, layout in self._preparations:
            make = partial(self._launcher.pack, kernel, named)
            made |= self._packs.get(layout, [named[name] for name in reads], make)
        return made


class LibraryEngine:
    """Runs torch's equivalent, in the workload's precision whatever the process is set to.

    The setting is the process's: while a float32 call is being queued, other threads see it.
    """

    def __init__(self, workload: Workload, call: LibraryCall, device: torch.device) -> None:
        self._output = workload.output
        self._call = call
        self._device = device
        self._float32 = any(t.dtype == "float32" for t in workload.inputs)

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        """Compute and return the output."""
        if output is None:
            output = empty(self._output, self._device)
        if not self._float32:
            return self._into(inputs, output)
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            return self._into(inputs, output)
        finally:
            torch.set_float32_matmul_precision(before)

    def _into(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        made = self._call(inputs, output)
        return output if made is None else output.copy_(made)


def engine_of(
    served: Served, target: Target | None, device: torch.device, packs: Packs | None = None
) -> Engine | str:
    """Return what computes as ``served`` says, or why that does not work here.

    A program that was not proven under the tools at hand is first built in a process of its own
    (seconds; a compiler that aborts or hangs must not take this process along), then held
    against the reference once. ``packs`` may be shared by engines; by default it has its own.
    """
    if served.program is None:
        call = library_call(served.workload)
        return LibraryEngine(served.workload, call, device) if call else "torch has no equivalent"
    if not served.proven and target is not None:
        failed = _build_once(served.program, target.triton_target)
        if failed is not None:
            return f"{_name(served)} does not build: {failed.detail}"
    return _kernel_engine(served, served.program, device, Packs() if packs is None else packs)


def _build_once(program: Program, triton_target: TritonTarget) -> Failed | None:
    """Build in a process of its own what was not built so before; return what went wrong."""
    parts = {(identity(program, kernel), triton_target) for kernel in program.kernels}
    if parts <= _built:
        return None
    built = build(program, triton_target)
    if isinstance(built, Failed):
        return built
    _built.update(parts)
    return None


def _dense_bytes(buffer: Buffer) -> int:
    """Return the bytes of a buffer whose elements lie without gaps, else 0."""
    elements = storage_elements(buffer)
    dense = elements == math.prod(buffer.shape)
    return elements * TORCH_DTYPES[buffer.dtype].itemsize if dense else 0


def _kernel_engine(
    served: Served, program: Program, device: torch.device, packs: Packs
) -> Engine | str:
    try:
        launcher = Launcher(program, device)
        wrong = None if served.proven else _proof(served.workload, launcher)
    except Exception as error:  # noqa: BLE001  compilers and drivers raise what they like
        return f"{_name(served)} does not run: {type(error).__name__}: {error}"
    return f"{_name(served)} is refused: {wrong}" if wrong else KernelEngine(launcher, packs)


def _proof(workload: Workload, launcher: Launcher) -> str | None:
    wrong = objection(workload, launcher)
    if launcher.device.type == "cuda":
        torch.cuda.empty_cache()  # the reference took many times the workload's memory
    return wrong


def _name(served: Served) -> str:
    return "its record" if served.source == "tuned" else f"the {served.source}"
