"""Start a program on tensors. The same code starts what is timed and what is served.

Knows nothing of timing or of what the program computes. A program is compiled once, bound to
tensors by ``prepare`` and started by ``run``, which checks and allocates nothing. On CUDA kernels
start through ``measure.cuda``, elsewhere through Triton.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
import triton
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

from measure import compiler, cuda
from measure.tensor import TORCH_DTYPES, empty
from search_space.program import Argument, Buffer, DescriptorArgument, Kernel, Program

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
        self._kernels: list[_Loaded]
        if compiler.interpreting():
            self._kernels = [_Interpreted(kernel) for kernel in program.kernels]
        elif self.device.type == "cuda":
            with torch.cuda.device(self.device):
                self._kernels = [_load(program, kernel, self.device) for kernel in program.kernels]
        else:
            raise BadArgument(f"device: kernels run on CUDA devices, not on {self.device}")

    @property
    def binds_addresses(self) -> bool:
        """Whether ``bind`` works here: where kernels start from addresses alone."""
        return all(isinstance(kernel, _OnCuda) for kernel in self._kernels)

    def bind(self, addresses: Mapping[str, int]) -> tuple[cuda.Binding, ...]:
        """Bind every kernel that does not prepare to buffers at these addresses, unchecked.

        They are to be started in order, on a stream of the device, after what is ``zeroed`` was
        cleared. Right for as long as the process lives: addresses and the program are all that a
        binding depends on. Raises BadArgument on an address that no descriptor takes.
        """
        return tuple(
            loaded.bind(addresses)
            for kernel, loaded in zip(self.program.kernels, self._kernels, strict=True)
            if isinstance(loaded, _OnCuda) and all(kernel.grid) and not kernel.prepares
        )

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
            (kernel.prepares, loaded.start_on(tensors))
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
            on_stream(self.device, loaded.start_on(tensors))
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


class _Loaded(Protocol):
    """A kernel that is ready to start on one device."""

    def start_on(self, tensors: Mapping[str, torch.Tensor]) -> _Start:
        """Return what starts it with its arguments bound; raises BadArgument."""


class _OnCuda:
    """Starts through the driver, from addresses alone."""

    def __init__(self, kernel: Kernel, made: _Made) -> None:
        self._grid = kernel.grid
        self._made = made
        # Extents and strides are the program's own; the rest is as it was compiled.
        self._arguments = tuple(map(_of_program, kernel.arguments, made.entry.arguments))

    def start_on(self, tensors: Mapping[str, torch.Tensor]) -> _Start:
        names = {argument.buffer for argument in self._arguments}
        return self.bind({name: tensors[name].data_ptr() for name in names}).start

    def bind(self, addresses: Mapping[str, int]) -> cuda.Binding:
        try:
            return self._made.function.bind(self._grid, self._arguments, addresses)
        except cuda.CudaError as error:
            boxes = [a.buffer for a in self._arguments if isinstance(a, cuda.Box)]
            raise BadArgument(f"{', '.join(boxes)}: no descriptor of it: {error}") from error


class _OnTriton:
    """Starts by the call that Triton's own front end ends in, without its checks."""

    def __init__(self, kernel: Kernel, compiled: Any) -> None:
        self._kernel = kernel
        self._compiled = compiled

    def start_on(self, tensors: Mapping[str, torch.Tensor]) -> _Start:
        bound = [
            tritons_argument(a, tensors[a.buffer])
            if isinstance(a, DescriptorArgument)
            else tensors[a.buffer].data_ptr()
            for a in self._kernel.arguments
        ]
        return partial(self._start, bound)

    def _start(self, bound: Sequence[Any], stream: int) -> None:
        loaded, (x, y, z) = self._compiled, self._kernel.grid
        metadata = loaded.packed_metadata
        loaded.run(x, y, z, stream, loaded.function, metadata, None, None, None, *bound)


class _Interpreted:
    """Runs in Triton's interpreter."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._function = compiler.function(kernel)

    def start_on(self, tensors: Mapping[str, torch.Tensor]) -> _Start:
        arguments = [tritons_argument(a, tensors[a.buffer]) for a in self._kernel.arguments]
        return lambda _: self._function[self._kernel.grid](*arguments)


def tritons_argument(argument: Argument, tensor: torch.Tensor) -> Any:
    """Return a kernel's argument as Triton's own front end takes it; raises BadArgument."""
    if not isinstance(argument, DescriptorArgument):
        return tensor
    shape, strides, block = (list(argument.shape), list(argument.strides), list(argument.block))
    try:
        return TensorDescriptor(tensor, shape, strides, block)
    except AssertionError as error:
        raise BadArgument(f"{argument.buffer}: no descriptor of it: {error}") from error


def _of_program(argument: Argument, compiled: cuda.Argument) -> cuda.Argument:
    if isinstance(argument, DescriptorArgument) and isinstance(compiled, cuda.Box):
        return replace(compiled, shape=argument.shape, strides=argument.strides)
    return compiled


class _Made:
    """A kernel compiled and put on a device, shared by all programs that hold the same text."""

    def __init__(self, entry: compiler.Entry, function: cuda.Function) -> None:
        self.entry = entry
        self.function = function


#: The current stream of a device by its number, as the driver's handle.
_raw_stream: Callable[[int], int] = getattr(
    torch._C,
    "_cuda_getCurrentRawStream",
    lambda index: torch.cuda.current_stream(index).cuda_stream,
)
_made: WeakValueDictionary[tuple[Any, ...], _Made] = WeakValueDictionary()
_lock = threading.Lock()


def _load(program: Program, kernel: Kernel, device: torch.device) -> _Loaded:
    """Compile a kernel and put it on a device, which is the current one."""
    if torch.version.hip:
        target = triton.runtime.driver.active.get_current_target()
        triton_target = (target.backend, target.arch, target.warp_size)
        compiled = compiler.compile_kernel(program, kernel, triton_target)
        # The first access to ``run`` loads the binary; later ones are cheap.
        _ = compiled.run
        return _OnTriton(kernel, compiled)
    key = (*compiler.identity(program, kernel), device.index)
    if (made := _made.get(key)) is None:
        major, minor = torch.cuda.get_device_capability(device)
        compiled = compiler.compile_kernel(program, kernel, ("cuda", 10 * major + minor, 32))
        fresh = _put_on(device, compiler.entry_of(compiled, kernel))
        with _lock:  # whoever came first is kept
            made = _made.setdefault(key, fresh)
    return _OnCuda(kernel, made)


def _put_on(device: torch.device, entry: compiler.Entry) -> _Made:
    torch.cuda.current_stream(device)  # torch begins: the device's context is the primary one
    try:
        function = cuda.driver().load(
            entry.cubin,
            entry.name,
            device.index,
            threads=entry.threads,
            shared_bytes=entry.shared_bytes,
        )
    except cuda.TooLarge as error:
        raise OutOfResources(error.needed, error.limit, error.what) from error
    return _Made(entry, function)


def on_stream(device: torch.device, start: _Start) -> None:
    """Start something on the current stream of ``device``."""
    if device.type != "cuda":
        start(0)
    elif torch.cuda.current_device() == device.index:
        start(current_stream(device))
    else:
        with torch.cuda.device(device):
            start(current_stream(device))


def current_stream(device: torch.device) -> int:
    """Return the current stream of a CUDA device, as the driver's handle."""
    return int(_raw_stream(device.index))


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
