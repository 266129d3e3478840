"""A way to compute a workload made ready on one device. Knows no log and picks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch

from autosched.runtime.packs import Packs
from autosched.runtime.proof import objection
from autosched.runtime.served import Served
from measure.builder import build
from measure.launch import Launcher
from measure.library import LibraryCall, library_call
from measure.measurement import Failed
from measure.tensor import empty
from search_space.program import Program, fingerprint
from search_space.target import Target
from search_space.workload import Workload


class Engine(Protocol):
    """Computes one workload on one device, on its current stream."""

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        """Return the output, allocated unless it is given. Inputs lie as the workload says."""


class KernelEngine:
    """Runs a program through the launcher that measured it; keeps what it prepared in ``packs``."""

    def __init__(self, launcher: Launcher, packs: Packs) -> None:
        self._launcher = launcher
        self._packs = packs
        program = launcher.program
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

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        """Bind, start and return the output. What was prepared of the same inputs serves again."""
        call = self._launcher.prepare(inputs, output, self._prepared(inputs))
        call.repeat()
        return call.output

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
        built = build(served.program, target.triton_target)
        if isinstance(built, Failed):
            return f"{_name(served)} does not build: {built.detail}"
    return _kernel_engine(served, served.program, device, Packs() if packs is None else packs)


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
