"""Start a program on tensors. The same code starts what is timed and what is served.

Knows nothing of timing or of what the program computes. A program is compiled once, bound to
tensors by ``prepare`` and started by ``run``, which checks and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from measure import compiler
from measure.tensor import TORCH_DTYPES, empty
from search_space.program import Buffer, DescriptorArgument, Kernel, Program

#: Starts one kernel on a stream, given as the driver's handle.
_Start = Callable[[int], None]


class BadArgument(ValueError):
    """A tensor that a program cannot take: names the argument, the wish and the fact."""


class Call:
    """A program bound to tensors. Tensors and workspaces live as long as the call does.

    ``run`` is all of it. Where the program has preparations, ``prepare`` runs those alone, and
    ``repeat`` the rest, which is right as long as constant inputs hold what they held then.
    """

    def __init__(
        self,
        device: torch.device,
        tensors: Mapping[str, torch.Tensor],
        program: Program,
        starts: Sequence[_Start],
        preparations: Sequence[_Start] = (),
    ) -> None:
        self.output = tensors[program.output.name]
        #: Scratch that holds nothing between runs.
        self.workspaces = tuple(tensors[b.name] for b in program.workspaces if not b.kept_zero)
        self._zeroed = tuple(tensors[b.name] for b in program.buffers if b.zeroed)
        self._tensors = tensors
        self._starts = tuple(starts)
        self._preparations = tuple(preparations)
        self._device = device

    def run(self) -> None:
        """Clear what must be zero and start the kernels on the current stream of the device."""
        if self._preparations:
            self.prepare()
        self.repeat()

    def prepare(self) -> None:
        """Start the preparations alone, if there are any, on the current stream."""
        on_stream(self._device, self._prepare)

    def repeat(self) -> None:
        """Start all but the preparations, whose results are taken as they lie."""
        on_stream(self._device, self._enqueue)

    def _prepare(self, stream: int) -> None:
        for start in self._preparations:
            start(stream)

    def _enqueue(self, stream: int) -> None:
        for tensor in self._zeroed:
            tensor.zero_()
        for start in self._starts:
            start(stream)


class Launcher:
    """A program compiled and loaded for one device.

    ``device`` is a CUDA device, or the CPU where Triton runs its interpreter. Raises what Triton
    raises on a program that does not compile, ``triton.runtime.errors.OutOfResources`` on one
    that the device cannot hold, and BadArgument on a device that runs no kernels.
    """

    def __init__(self, program: Program, device: torch.device | str | int) -> None:
        self.program = program
        self.device = indexed(torch.device(device))
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._kernels: list[Any]
        if compiler.interpreting():
            self._kernels = [compiler.function(kernel) for kernel in program.kernels]
        elif self.device.type == "cuda":
            with torch.cuda.device(self.device):
                self._kernels = [_load(program, kernel) for kernel in program.kernels]
        else:
            raise BadArgument(f"device: kernels run on CUDA devices, not on {self.device}")

    def prepare(
        self,
        inputs: Sequence[torch.Tensor],
        output: torch.Tensor | None = None,
        prepared: Mapping[str, torch.Tensor] | None = None,
    ) -> Call:
        """Bind ``inputs``, in the program's order, and ``output``, allocated if it is not given.

        Descriptors are made and workspaces allocated here, once, but for those ``prepared``, which
        hold what ``pack`` left in them: the call is then for ``repeat``. Raises BadArgument where
        dtype, shape, strides, device or alignment differ from what the program was rendered for,
        or where the output overlaps an input.
        """
        program = self.program
        if len(inputs) != len(program.inputs):
            raise BadArgument(f"the program takes {len(program.inputs)} inputs, not {len(inputs)}")
        if output is None:
            output = empty(program.output, self.device)
        tensors = {b.name: t for b, t in zip(program.inputs, inputs, strict=True)}
        tensors[program.output.name] = output
        for name, tensor in tensors.items():
            self._check(self._buffers[name], tensor)
        _check_apart(program, tensors)
        tensors |= prepared or {}
        for buffer in program.workspaces:
            if buffer.name in tensors:
                continue
            tensors[buffer.name] = empty(buffer, self.device)
            if buffer.kept_zero:
                tensors[buffer.name].zero_()
        bound = [
            (kernel.prepares, self._start(kernel, loaded, tensors))
            for kernel, loaded in zip(program.kernels, self._kernels, strict=True)
            if all(kernel.grid)
        ]
        starts, preparations = ([s for p, s in bound if p is which] for which in (False, True))
        return Call(self.device, tensors, program, starts, preparations)

    def pack(
        self, kernel: Kernel, inputs: Mapping[str, torch.Tensor]
    ) -> Mapping[str, torch.Tensor]:
        """Run one preparation on the current stream; return the workspaces that it fills.

        ``inputs`` are by name. Raises BadArgument as ``prepare`` does.
        """
        made: dict[str, torch.Tensor] = {}
        tensors = dict[str, torch.Tensor]()
        for name in kernel.buffers:
            buffer = self._buffers[name]
            if buffer.role == "workspace":
                tensors[name] = made[name] = empty(buffer, self.device)
            else:
                self._check(buffer, inputs[name])
                tensors[name] = inputs[name]
        loaded = self._kernels[self.program.kernels.index(kernel)]
        if all(kernel.grid):
            on_stream(self.device, self._start(kernel, loaded, tensors))
        return made

    def _check(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        wishes: list[tuple[str, Any, Any]] = [
            ("device", self.device, tensor.device),
            ("dtype", TORCH_DTYPES[buffer.dtype], tensor.dtype),
            ("shape", buffer.shape, tuple(tensor.shape)),
        ]
        for what, wish, fact in wishes:
            if wish != fact:
                raise BadArgument(f"{buffer.name}: the program takes {what} {wish}, not {fact}")
        for extent, wish, fact in zip(buffer.shape, buffer.strides, tensor.stride(), strict=True):
            if extent > 1 and wish != fact:
                raise BadArgument(
                    f"{buffer.name}: the program takes strides {buffer.strides},"
                    f" not {tuple(tensor.stride())}"
                )
        if tensor.data_ptr() % buffer.alignment_bytes:
            raise BadArgument(
                f"{buffer.name}: the program takes an address that is a multiple of"
                f" {buffer.alignment_bytes} bytes, not {tensor.data_ptr():#x}"
            )

    def _start(self, kernel: Kernel, loaded: Any, tensors: Mapping[str, torch.Tensor]) -> _Start:
        """Return what starts one kernel with its arguments bound."""
        if compiler.interpreting():
            arguments = [self._argument(a, tensors[a.buffer]) for a in kernel.arguments]
            return lambda _: loaded[kernel.grid](*arguments)
        bound = [
            self._argument(a, tensors[a.buffer])
            if isinstance(a, DescriptorArgument)
            else tensors[a.buffer].data_ptr()
            for a in kernel.arguments
        ]
        return partial(_launch, loaded, kernel.grid, bound)

    def _argument(self, argument: Any, tensor: torch.Tensor) -> Any:
        if not isinstance(argument, DescriptorArgument):
            return tensor
        shape, strides, block = (list(argument.shape), list(argument.strides), list(argument.block))
        try:
            return TensorDescriptor(tensor, shape, strides, block)
        except AssertionError as error:
            raise BadArgument(f"{argument.buffer}: no descriptor of it: {error}") from error


def _launch(loaded: Any, grid: tuple[int, int, int], bound: Sequence[Any], stream: int) -> None:
    """Start a loaded kernel: the call that Triton's own front end ends in, without its checks."""
    x, y, z = grid
    loaded.run(x, y, z, stream, loaded.function, loaded.packed_metadata, None, None, None, *bound)


def _load(program: Program, kernel: Kernel) -> Any:
    """Compile a kernel for the current device and put it there."""
    target = triton.runtime.driver.active.get_current_target()
    triton_target = (target.backend, target.arch, target.warp_size)
    loaded = compiler.compile_kernel(program, kernel, triton_target)
    # The first access to ``run`` loads the binary; later ones are cheap.
    _ = loaded.run
    return loaded


def on_stream(device: torch.device, start: _Start) -> None:
    """Start something on the current stream of ``device``."""
    if device.type != "cuda":
        start(0)
    elif torch.cuda.current_device() == device.index:
        start(_stream(device))
    else:
        with torch.cuda.device(device):
            start(_stream(device))


def _stream(device: torch.device) -> int:
    return int(triton.runtime.driver.active.get_current_stream(device.index))


def indexed(device: torch.device) -> torch.device:
    """Return the device with its index: "cuda" is the current one."""
    if str(device) == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _check_apart(program: Program, tensors: Mapping[str, torch.Tensor]) -> None:
    start, end = _span(tensors[program.output.name])
    for buffer in program.inputs:
        first, last = _span(tensors[buffer.name])
        if first < end and start < last:
            raise BadArgument(f"{program.output.name}: the output overlaps input {buffer.name}")


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first address of a tensor and the one past its last."""
    if tensor.numel() == 0:
        return 0, 0
    reach = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()
