"""Load the kernels of an exported folder and call them on torch's tensors.

This file stands in the folder as ``autosched_kernels.py``. It needs Python, torch and a driver of
CUDA: no Triton, no compiler, nothing of autosched::

    kernels = autosched_kernels.load("folder")
    c = kernels["matmul_512x512x512_float16_nn"](a, b)

A folder is checked before anything of it is used (``autosched_manifest``). That finds damage. It is
no proof of where a folder comes from: its binaries and its Python run with the rights of the
process, so load only what you trust.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING or __package__:
    from .autosched_manifest import (
        DRIVER,
        BadManifest,
        Buffer,
        ExportError,
        Kernel,
        Manifest,
        Workload,
        binaries,
        read,
    )
else:
    from autosched_manifest import (
        DRIVER,
        BadManifest,
        Buffer,
        ExportError,
        Kernel,
        Manifest,
        Workload,
        binaries,
        read,
    )

if TYPE_CHECKING:
    from measure import cuda

#: Calls whose arguments are kept laid out, by addresses, for each kernel; beyond, all are dropped.
MOST_BINDINGS = 256

DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "float8_e4m3": torch.float8_e4m3fn,
    "int8": torch.int8,
    "int32": torch.int32,
}


class WrongGpu(ExportError, RuntimeError):
    """A GPU that the folder was not built for, or none at all."""


class WrongTensor(ExportError, ValueError):
    """A tensor that a kernel does not take: names the argument, the wish and the fact."""


def load(
    folder: str | Path,
    device: torch.device | int | None = None,
    *,
    library: ctypes.CDLL | None = None,
) -> Kernels:
    """Check a folder and load all of its kernels on a CUDA device, by default the current one.

    Raises BadManifest where anything is not as it was exported, WrongGpu where the device is
    another than the folder was built for, OSError where a file cannot be read. ``library`` is
    given by tests alone: it stands in for libcuda, tensors lie on the CPU and streams are 0.
    """
    folder = Path(folder)
    manifest = read(folder)
    held = binaries(folder, manifest)
    driver_module = _driver_module(folder, manifest.files[DRIVER])
    if library is not None:
        place = torch.device("cpu")
        driver = driver_module.Driver(library)
    else:
        place = _device(device)
        try:
            driver = driver_module.driver()
        except driver_module.NoDriver as error:
            raise WrongGpu(f"{folder}: {error}") from error
    index = place.index or 0
    _check_gpu(folder, manifest, driver.device_name(index), driver.capability(index))
    with _current(place):
        if place.type == "cuda":
            torch.cuda.current_stream(place)  # torch begins, with the device's primary context
        made = [Function(w, place, driver_module, driver, held) for w in manifest.workloads]
    return Kernels(manifest, made)


class Kernels(Mapping[str, "Function"]):
    """The functions of a folder, by name; also found by the key of their workload."""

    def __init__(self, manifest: Manifest, functions: Sequence[Function]) -> None:
        self.manifest = manifest
        self._functions = {function.workload.name: function for function in functions}
        self._names = {function.workload.key: function.workload.name for function in functions}

    def __getitem__(self, name: str) -> Function:
        function = self._functions.get(self._names.get(name, name))
        if function is None:
            raise KeyError(f"{name!r} is not among {', '.join(self._functions)}")
        return function

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


@dataclass(frozen=True)
class Prepared:
    """What ``Function.prepare`` made of constant tensors; right until one of them changes."""

    function: Function
    tensors: Mapping[str, torch.Tensor]


class Function:
    """One workload on one device. Calls may come from many threads."""

    def __init__(
        self,
        workload: Workload,
        device: torch.device,
        driver_module: Any,
        driver: Any,
        binaries: Mapping[str, bytes],
    ) -> None:
        self.workload = workload
        self.device = device
        self._loaded = [
            _Loaded(kernel, driver_module, driver, binaries[kernel.file], device.index or 0)
            for kernel in workload.kernels
        ]
        self._kinds = tuple(_kind_of(buffer, device) for buffer in workload.inputs)
        self._out_kind = _kind_of(workload.output, device)
        self._mask = max(b.alignment_bytes for b in (*workload.inputs, workload.output)) - 1
        self._workspaces = tuple(b for b in workload.buffers if b.role == "workspace")
        self._names = tuple(b.name for b in (*workload.inputs, workload.output, *self._workspaces))
        #: Kernels with all of their arguments laid out, by what is started and at which addresses.
        self._known: dict[tuple[bool, tuple[int, ...]], list[cuda.Binding]] = {}

    def __call__(
        self,
        *inputs: torch.Tensor,
        out: torch.Tensor | None = None,
        prepared: Prepared | None = None,
    ) -> torch.Tensor:
        """Compute on the current stream of the device, and return the output.

        ``inputs`` are in the workload's order and lie as it says; ``out`` is written in place of
        a new tensor. ``prepared`` comes from ``prepare``, called with the same constant tensors.
        Raises WrongTensor.
        """
        if not self._usual(inputs, out):
            self._check_all(inputs, out)
        if out is not None:
            self._check_apart(inputs, out)
        if prepared is not None and prepared.function is not self:
            other = prepared.function
            raise WrongTensor(
                f"{self.workload.name} on {self.device}: what is prepared is "
                f"{other.workload.name}'s on {other.device}"
            )
        made = {} if prepared is None else prepared.tensors
        with _current(self.device):
            if out is None:
                out = self._empty(self.workload.output)
            scratch = [made[b.name] if b.name in made else self._clean(b) for b in self._workspaces]
            addresses = tuple([tensor.data_ptr() for tensor in (*inputs, out, *scratch)])
            stream = _stream(self.device)
            for binding in self._bound(addresses, with_preparations=prepared is None):
                binding.start(stream)
        return out

    def prepare(self, *constants: torch.Tensor) -> Prepared:
        """Copy constant inputs, those of ``workload.prepared`` in order, into the kernels' layout.

        Hand what is returned to calls with the same tensors: they then leave that work out. It
        holds until a tensor changes; nothing notices that. Raises WrongTensor.
        """
        workload = self.workload
        if len(constants) != len(workload.prepared):
            names = ", ".join(b.name for b in workload.prepared) or "nothing"
            raise WrongTensor(f"{workload.name} prepares {names}, not {len(constants)} tensors")
        tensors = {b.name: t for b, t in zip(workload.prepared, constants, strict=True)}
        for buffer in workload.prepared:
            self._check(buffer, tensors[buffer.name])
        preparing = [loaded for loaded in self._loaded if loaded.kernel.prepares]
        used = {name for loaded in preparing for name, _ in loaded.kernel.arguments}
        with _current(self.device):
            made = {b.name: self._clean(b) for b in self._workspaces if b.name in used}
            addresses = {name: tensor.data_ptr() for name, tensor in (tensors | made).items()}
            stream = _stream(self.device)
            for loaded in preparing:
                if all(loaded.kernel.grid):
                    loaded.bind(addresses).start(stream)
        return Prepared(self, made)

    def _bound(self, addresses: tuple[int, ...], *, with_preparations: bool) -> list[cuda.Binding]:
        """Return what is to be started in order. It depends on addresses alone, so it is right
        whoever owns that memory now."""
        key = (with_preparations, addresses)
        found = self._known.get(key)
        if found is None:
            named = dict(zip(self._names, addresses, strict=True))
            found = [
                loaded.bind(named)
                for loaded in self._loaded
                if all(loaded.kernel.grid) and (with_preparations or not loaded.kernel.prepares)
            ]
            if len(self._known) >= MOST_BINDINGS:
                self._known = {}
            self._known[key] = found
        return found

    def _clean(self, buffer: Buffer) -> torch.Tensor:
        made = self._empty(buffer)
        return made.zero_() if buffer.zeroed or buffer.kept_zero else made

    def _empty(self, buffer: Buffer) -> torch.Tensor:
        dtype = DTYPES[buffer.dtype]
        return torch.empty_strided(buffer.shape, buffer.strides, dtype=dtype, device=self.device)

    def _usual(self, inputs: Sequence[torch.Tensor], out: torch.Tensor | None) -> bool:
        """Say whether tensors are as most are: right at a glance. Others are looked at closely."""
        tensors = inputs if out is None else (*inputs, out)
        wishes = self._kinds if out is None else (*self._kinds, self._out_kind)
        try:
            facts = tuple([(t.shape, t.stride(), t.dtype, t.device) for t in tensors])
        except AttributeError:  # something is no tensor
            return False
        if facts != wishes:
            return False
        together = 0
        for tensor in tensors:
            together |= tensor.data_ptr()
        learning = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        return not together & self._mask and not learning

    def _check_all(self, inputs: Sequence[torch.Tensor], out: torch.Tensor | None) -> None:
        workload = self.workload
        if len(inputs) != len(workload.inputs):
            raise WrongTensor(
                f"{workload.name} takes {len(workload.inputs)} inputs, not {len(inputs)}"
            )
        for buffer, tensor in zip(workload.inputs, inputs, strict=True):
            self._check(buffer, tensor)
        if out is not None:
            self._check(workload.output, out)

    def _check(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        name = f"{self.workload.name}: {buffer.name}"
        if not isinstance(tensor, torch.Tensor):
            raise WrongTensor(f"{name} is a {type(tensor).__name__}, not a torch tensor")
        wishes: list[tuple[str, Any, Any]] = [
            ("on", self.device, tensor.device),
            ("of dtype", DTYPES[buffer.dtype], tensor.dtype),
            ("of shape", buffer.shape, tuple(tensor.shape)),
        ]
        for what, wish, fact in wishes:
            if wish != fact:
                raise WrongTensor(f"{name} must be {what} {wish}, and is {what} {fact}")
        lies = zip(buffer.shape, buffer.strides, tensor.stride(), strict=True)
        if any(extent > 1 and wish != fact for extent, wish, fact in lies):
            raise WrongTensor(
                f"{name} must have strides {buffer.strides}, and has {tuple(tensor.stride())}"
            )
        if tensor.data_ptr() % buffer.alignment_bytes:
            raise WrongTensor(
                f"{name} must begin at a multiple of {buffer.alignment_bytes} bytes, and begins "
                f"at {tensor.data_ptr():#x}"
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise WrongTensor(
                f"{name} requires grad, and these kernels have no backward: call under "
                "torch.no_grad(), or detach it"
            )

    def _check_apart(self, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        start, end = _span(self.workload.output, out)
        for buffer, tensor in zip(self.workload.inputs, inputs, strict=True):
            low, high = _span(buffer, tensor)
            if low < end and start < high:
                raise WrongTensor(f"{self.workload.name}: out shares memory with {buffer.name}")


class _Loaded:
    """A kernel in a device's context, and how its arguments lie."""

    def __init__(
        self, kernel: Kernel, driver_module: Any, driver: Any, binary: bytes, device: int
    ) -> None:
        self.kernel = kernel
        self._arguments = [
            driver_module.Address(name) if box is None else driver_module.Box(name, **box)
            for name, box in kernel.arguments
        ]
        shape = {"threads": kernel.threads, "shared_bytes": kernel.shared_bytes}
        try:
            self._function = driver.load(binary, kernel.function, device, **shape)
        except (driver_module.CudaError, driver_module.TooLarge) as error:
            raise BadManifest(f"{kernel.file}: {kernel.function} does not load: {error}") from error

    def bind(self, addresses: Mapping[str, int]) -> cuda.Binding:
        bound: cuda.Binding = self._function.bind(self.kernel.grid, self._arguments, addresses)
        return bound


def _kind_of(buffer: Buffer, device: torch.device) -> tuple[Any, ...]:
    return torch.Size(buffer.shape), buffer.strides, DTYPES[buffer.dtype], device


def _span(buffer: Buffer, tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + buffer.elements * tensor.element_size()


def _device(device: torch.device | int | None) -> torch.device:
    if not torch.cuda.is_available():
        raise WrongGpu("torch sees no CUDA device here")
    given = torch.device("cuda" if device is None else device)
    if given.type != "cuda":
        raise WrongGpu(f"kernels run on CUDA devices, not on {given}")
    if str(given) == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return given


def _current(device: torch.device) -> AbstractContextManager[Any]:
    if device.type != "cuda" or torch.cuda.current_device() == device.index:
        return nullcontext()
    return torch.cuda.device(device)


#: The current stream of a device by its number, as the driver's handle: the shorter way, if torch
#: has it.
_raw_stream: Callable[[int], int] = getattr(
    torch._C,
    "_cuda_getCurrentRawStream",
    lambda index: torch.cuda.current_stream(index).cuda_stream,
)


def _stream(device: torch.device) -> int:
    return int(_raw_stream(device.index)) if device.type == "cuda" else 0


def _check_gpu(folder: Path, manifest: Manifest, name: str, capability: tuple[int, int]) -> None:
    wish, fact = divmod(manifest.arch, 10), tuple(capability)
    if name not in manifest.gpus or wish != fact:
        raise WrongGpu(
            f"{folder} was built for {' or '.join(manifest.gpus)} of compute capability "
            f"{wish[0]}.{wish[1]}; this GPU is {name} of compute capability {fact[0]}.{fact[1]}: "
            "export for its own target, from a log measured on it"
        )


def _driver_module(folder: Path, digest: str) -> Any:
    """Import the folder's own driver file, once a process for equal files."""
    name = f"_autosched_cuda_{digest[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / DRIVER)
        if spec is None or spec.loader is None:
            raise BadManifest(f"{folder / DRIVER} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
