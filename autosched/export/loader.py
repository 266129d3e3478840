"""Load the kernels of an exported folder and call them on torch's tensors.

This file stands in the folder as ``autosched_kernels.py``. It needs Python, torch and a driver of
CUDA: no Triton, no compiler, nothing of autosched::

    kernels = autosched_kernels.load("folder")
    c = kernels["matmul_512x512x512_float16_nn"](a, b)

Everything that the manifest says is checked before any of it is used, and every file is held
against its hash: that finds damage. It is no proof of where a folder comes from: binaries and
Python of a folder run with the rights of the process, so load only what you trust.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from measure import cuda

#: The form of manifest that this file reads.
FORM = 1
MANIFEST = "manifest.json"
#: The file of the folder through which kernels are loaded and started.
DRIVER = "autosched_cuda.py"
#: Bounds on what a manifest may say: bytes of files, lengths of lists, elements of tensors.
MOST_BYTES, MOST_ENTRIES, MOST_ELEMENTS = 1 << 26, 4096, 1 << 48
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

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_HASH = re.compile(r"[0-9a-f]{64}")
_GRID = ((1 << 31) - 1, 65535, 65535)


class ExportError(Exception):
    """The root of what this file raises on purpose."""


class BadManifest(ExportError, ValueError):
    """A folder that is not as it was exported: names the place, the wish and the fact."""


class WrongGpu(ExportError, RuntimeError):
    """A GPU that the folder was not built for, or none at all."""


class WrongTensor(ExportError, ValueError):
    """A tensor that a kernel does not take: names the argument, the wish and the fact."""


@dataclass(frozen=True)
class Buffer:
    """A tensor that kernels read or write; shape and strides in elements.

    A workspace with ``zeroed`` or ``kept_zero`` is cleared before each call, since each call has
    its own.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    alignment_bytes: int
    zeroed: bool
    kept_zero: bool
    constant: bool

    @cached_property
    def elements(self) -> int:
        """How many elements lie from the first to the last, gaps counted."""
        if 0 in self.shape:
            return 0
        return 1 + sum((e - 1) * s for e, s in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True)
class Kernel:
    """One function of one binary, with its launch plan. What ``prepares`` reads constants alone.

    Each argument is a buffer, and where it goes by a descriptor, the fields of that.
    """

    file: str
    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    prepares: bool
    arguments: tuple[tuple[str, Mapping[str, Any] | None], ...]


@dataclass(frozen=True)
class Workload:
    """One exported computation. ``evidence`` says what was measured of it, and how it was held
    against a reference."""

    name: str
    key: str
    label: str
    text: str
    program: str
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    evidence: Mapping[str, Any] = field(repr=False)

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The caller's inputs, in the order of a call."""
        return tuple(b for b in self.buffers if b.role == "input")

    @cached_property
    def output(self) -> Buffer:
        """The output."""
        return next(b for b in self.buffers if b.role == "output")

    @property
    def prepared(self) -> tuple[Buffer, ...]:
        """The constant inputs that kernels copy into a layout of their own."""
        read = {name for k in self.kernels if k.prepares for name, _ in k.arguments}
        return tuple(b for b in self.inputs if b.name in read)


@dataclass(frozen=True)
class Manifest:
    """What a folder holds, and for which GPU. ``arch`` is the compute capability, as 90."""

    autosched: str
    target: str
    arch: int
    gpus: tuple[str, ...]
    multiprocessors: int
    shared_bytes: int
    files: Mapping[str, str]
    workloads: tuple[Workload, ...]


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
    binaries = _binaries(folder, manifest)
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
        made = [Function(w, place, driver_module, driver, binaries) for w in manifest.workloads]
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


# Reading and checking: from here on nothing is loaded and nothing is run.


def read(folder: str | Path) -> Manifest:
    """Read and check the manifest alone; raises BadManifest, or OSError."""
    path = Path(folder) / MANIFEST
    if path.stat().st_size > MOST_BYTES:
        raise BadManifest(f"{path}: has {path.stat().st_size} bytes, at most {MOST_BYTES} are read")
    raw = path.read_bytes()
    try:
        data = json.loads(raw, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
        return _manifest(_Value(data, ""))
    except BadManifest as error:
        raise BadManifest(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"{path}: is not JSON: {error}") from error


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's content, all but its own field ``sha256``."""
    rest = {name: value for name, value in data.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _binaries(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """Hold every file against its hash; return the binaries."""
    held: dict[str, bytes] = {}
    for name, wish in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise BadManifest(f"{path}: the manifest names it, and it is missing")
        if path.stat().st_size > MOST_BYTES:
            raise BadManifest(f"{path}: has more than {MOST_BYTES} bytes")
        raw = path.read_bytes()
        fact = hashlib.sha256(raw).hexdigest()
        if fact != wish:
            raise BadManifest(
                f"{path}: is damaged or was changed: SHA-256 {fact[:16]}..., "
                f"the manifest says {wish[:16]}..."
            )
        if name.endswith(".cubin"):
            held[name] = raw
    return held


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BadManifest("a name stands twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise BadManifest(f"{name} is no number")


@dataclass(frozen=True)
class _Value:
    """Plain data and its place in the manifest, for errors."""

    data: Any
    place: str

    def fail(self, wish: str) -> BadManifest:
        fact = repr(self.data)
        shown = fact if len(fact) <= 60 else f"{fact[:57]}..."
        return BadManifest(f"{self.place or 'it'} must be {wish}, and is {shown}")

    def fields(self, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, _Value]:
        if not isinstance(self.data, dict):
            raise self.fail("an object")
        for name in names:
            if name not in self.data:
                raise BadManifest(f"{self._within(name)} is missing")
        for name in self.data:
            if name not in names and name not in optional:
                raise BadManifest(f"{self._within(name[:60])} is not known")
        return {name: _Value(value, self._within(name)) for name, value in self.data.items()}

    def _within(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def entries(self, most: int = MOST_ENTRIES) -> list[_Value]:
        if not isinstance(self.data, list) or len(self.data) > most:
            raise self.fail(f"a list of at most {most}")
        return [_Value(value, f"{self.place}[{i}]") for i, value in enumerate(self.data)]

    def integer(self, low: int, high: int) -> int:
        if type(self.data) is not int or not low <= self.data <= high:
            raise self.fail(f"an integer from {low} to {high}")
        return self.data

    def integers(self, low: int, high: int, most: int = 8) -> tuple[int, ...]:
        return tuple(value.integer(low, high) for value in self.entries(most))

    def text(self, form: re.Pattern[str] | None = None) -> str:
        if not isinstance(self.data, str) or (form is not None and not form.fullmatch(self.data)):
            raise self.fail(f"a text like {form.pattern}" if form else "a text")
        return self.data

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            raise self.fail("true or false")
        return self.data

    def one_of(self, known: Sequence[str]) -> str:
        if self.data not in known:
            raise self.fail(f"one of {', '.join(known)}")
        return str(self.data)


def _manifest(value: _Value) -> Manifest:
    if not isinstance(value.data, dict) or value.data.get("form") != FORM:
        form = value.data.get("form") if isinstance(value.data, dict) else None
        raise BadManifest(f"its form must be {FORM}, and is {str(form)[:20]}")
    held = value.fields(("form", "autosched", "sha256", "target", "files", "workloads"))
    if held["sha256"].text(_HASH) != digest_of(value.data):
        raise BadManifest("is damaged or was changed: its content is not what sha256 says")
    target = held["target"].fields(("name", "arch", "gpus", "multiprocessors", "shared_bytes"))
    files = _files(held["files"])
    if DRIVER not in files:
        raise BadManifest(f"files.{DRIVER} is missing")
    shared_bytes = target["shared_bytes"].integer(0, 1 << 24)
    workloads = tuple(_workload(w, files, shared_bytes) for w in held["workloads"].entries())
    for what in ("name", "key"):
        if len({getattr(w, what) for w in workloads}) < len(workloads):
            raise BadManifest(f"two workloads have one {what}")
    return Manifest(
        held["autosched"].text(),
        target["name"].text(),
        target["arch"].integer(10, 999),
        tuple(gpu.text() for gpu in target["gpus"].entries(64)),
        target["multiprocessors"].integer(1, 1 << 16),
        shared_bytes,
        files,
        workloads,
    )


def _files(value: _Value) -> dict[str, str]:
    if not isinstance(value.data, dict) or len(value.data) > MOST_ENTRIES:
        raise value.fail(f"an object of at most {MOST_ENTRIES} files")
    named = value.fields((), tuple(value.data))
    return {
        _Value(name, "a file's name").text(_FILE): digest.text(_HASH)
        for name, digest in named.items()
    }


def _workload(value: _Value, files: Mapping[str, str], shared_bytes: int) -> Workload:
    names = ("name", "key", "label", "text", "program", "buffers", "kernels", "evidence")
    held = value.fields(names)
    buffers = tuple(map(_buffer, held["buffers"].entries(64)))
    known = {buffer.name: buffer for buffer in buffers}
    if len(known) < len(buffers):
        raise BadManifest(f"{held['buffers'].place}: two have one name")
    if sum(buffer.role == "output" for buffer in buffers) != 1:
        raise BadManifest(f"{held['buffers'].place} must hold one output")
    if all(buffer.role != "input" for buffer in buffers):
        raise BadManifest(f"{held['buffers'].place} must hold an input")
    kernels = tuple(_kernel(k, files, known, shared_bytes) for k in held["kernels"].entries(64))
    if not isinstance(held["evidence"].data, dict):
        raise held["evidence"].fail("an object")
    texts = (held[name].text() for name in ("key", "label", "text", "program"))
    name, evidence = held["name"].text(_NAME), held["evidence"].data
    key, label, text, program = texts
    return Workload(name, key, label, text, program, buffers, kernels, evidence)


def _buffer(value: _Value) -> Buffer:
    flags = ("zeroed", "kept_zero", "constant")
    held = value.fields(("name", "role", "shape", "strides", "dtype", "alignment_bytes", *flags))
    shape = held["shape"].integers(0, MOST_ELEMENTS)
    strides = held["strides"].integers(0, MOST_ELEMENTS)
    alignment = held["alignment_bytes"].integer(1, 4096)
    if alignment & (alignment - 1):
        raise held["alignment_bytes"].fail("a power of two")
    if len(shape) != len(strides):
        raise held["strides"].fail(f"{len(shape)} strides, one for each extent")
    buffer = Buffer(
        held["name"].text(_NAME),
        held["role"].one_of(("input", "output", "workspace")),
        shape,
        strides,
        held["dtype"].one_of(tuple(DTYPES)),
        alignment,
        *(held[flag].flag() for flag in flags),
    )
    if buffer.role != "workspace" and (buffer.zeroed or buffer.kept_zero):
        raise BadManifest(f"{value.place}: only a workspace is cleared")
    if max(buffer.elements, math.prod(shape)) > MOST_ELEMENTS:
        raise BadManifest(f"{value.place}: a tensor of more than {MOST_ELEMENTS} elements")
    return buffer


def _kernel(
    value: _Value, files: Mapping[str, str], buffers: Mapping[str, Buffer], shared_bytes: int
) -> Kernel:
    plan = ("grid", "threads", "shared_bytes", "prepares")
    held = value.fields(("file", "function", *plan, "arguments"))
    file = held["file"].text(_FILE)
    if file not in files or not file.endswith(".cubin"):
        raise held["file"].fail("a .cubin among the manifest's files")
    grid = held["grid"].entries(3)
    if len(grid) != 3:
        raise held["grid"].fail("a list of 3")
    x, y, z = (n.integer(0, most) for n, most in zip(grid, _GRID, strict=True))
    threads = held["threads"].integer(32, 1024)
    shared = held["shared_bytes"].integer(0, shared_bytes)
    arguments = tuple(_argument(a, buffers) for a in held["arguments"].entries(64))
    function = held["function"].text(_NAME)
    return Kernel(file, function, (x, y, z), threads, shared, held["prepares"].flag(), arguments)


def _argument(value: _Value, buffers: Mapping[str, Buffer]) -> tuple[str, Mapping[str, Any] | None]:
    held = value.fields(("buffer",), ("box",))
    name = held["buffer"].one_of(tuple(buffers))
    if "box" not in held:
        return name, None
    lists, numbers = ("shape", "strides", "block"), ("element_bytes", "element_type", "swizzle")
    box = held["box"].fields((*lists, *numbers))
    least = {"shape": 1, "strides": 0, "block": 1}
    made: dict[str, Any] = {what: box[what].integers(least[what], 1 << 40, 5) for what in lists}
    if not made["shape"] or len({len(made[what]) for what in lists}) != 1:
        raise BadManifest(f"{held['box'].place}: shape, strides and block must be equally long")
    if max(made["shape"]) >= 1 << 31:
        raise BadManifest(f"{held['box'].place}.shape: an extent of more than 31 bits")
    bounds = {"element_bytes": (1, 8), "element_type": (0, 15), "swizzle": (0, 3)}
    return name, made | {what: box[what].integer(*bounds[what]) for what in numbers}
