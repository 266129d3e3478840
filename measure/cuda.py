"""CUDA's driver by ctypes: load compiled kernels, bind their arguments to addresses, start them.

Standard library only, and one file, so that what is exported can take it along. Knows nothing of
tensors, of programs or of who compiled a kernel. Contexts are the devices' primary ones, which
torch uses too; nothing here creates or destroys one that is in use.

How the arguments of a kernel lie is what Triton 3.6 compiles: an address is 8 bytes; a descriptor
is a tensor map of 128 bytes, then an int32 for each extent, then an int64 for each stride; two
null addresses for scratch, of which our kernels need none, end the list.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

#: The library that a CUDA driver brings along; on Linux there is no other name.
LIBRARY = "libcuda.so.1"
#: Bytes of a tensor map (CUtensorMap), and what its address must be a multiple of.
MAP_BYTES, MAP_ALIGNMENT = 128, 64
#: Streams for which a binding keeps what the call takes; beyond, it forgets all.
MOST_STREAMS = 64
#: Shared memory that a kernel may use without asking, bytes.
SHARED_UNASKED = 48 * 1024

_PREFER_SHARED = 1  # CU_FUNC_CACHE_PREFER_SHARED
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MAX_THREADS = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
_SHARED_OPTIN = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_L2_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
#: A thread that never called CUDA has no current context; one of another device has the wrong one.
_NO_CONTEXT = (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE

_POINTER, _BYTE, _SIZE = ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_size_t

_forked = False


class CudaError(RuntimeError):
    """A call of the driver that failed: names the call, and the error as CUDA names it."""

    def __init__(self, call: str, code: int, said: str) -> None:
        super().__init__(f"{call}: {said} (CUDA error {code})")
        self.code = code


class NoDriver(RuntimeError):
    """There is no CUDA driver here, or it is too old for what is asked of it."""


class ForkedProcess(RuntimeError):
    """CUDA was used before this process was forked: it works in no child of a fork."""


class TooLarge(ValueError):
    """A kernel that the device cannot hold: it needs more of ``what`` than there is."""

    def __init__(self, what: str, needed: int, limit: int) -> None:
        super().__init__(f"{what}: {needed} needed, the device has {limit}")
        self.what, self.needed, self.limit = what, needed, limit


@dataclass(frozen=True, slots=True)
class Address:
    """A kernel argument that is where a buffer begins."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Box:
    """A kernel argument that is a descriptor of a buffer: how its tensor map is encoded.

    ``shape``, ``strides`` (elements; the last is 1) and ``block`` have the view's rank, the
    slowest dimension first. ``element_type`` is CUDA's number (CUtensorMapDataType), ``swizzle``
    CUtensorMapSwizzle. What is read out of range is 0.
    """

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    element_bytes: int
    element_type: int
    swizzle: int


Argument = Address | Box


class Driver:
    """The driver's calls that are needed here. ``library`` is libcuda, by default the machine's."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = library or _library()
        self.check("cuInit", 0)
        #: Starts a kernel. Its four arguments come as ctypes' objects, made once: converting eleven
        #: numbers of cuLaunchKernel on each call costs the host five times as much.
        self.launch = _call(self._library, "cuLaunchKernelEx")
        self._memset = _call(self._library, "cuMemsetD8Async", _POINTER, _BYTE, _SIZE, _POINTER)

    def check(self, call: str, *arguments: object) -> None:
        """Make a call by name; raises CudaError unless it says that all is well."""
        code = int(getattr(self._library, call)(*arguments))
        if code:
            raise self.error(call, code)

    def error(self, call: str, code: int) -> Exception:
        """Return what to raise for an error code of a call."""
        if _forked:
            return ForkedProcess(
                "CUDA was used before this process was forked, and works in no child of a fork: "
                "start processes by spawn (multiprocessing.get_context('spawn'))"
            )
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return CudaError(call, code, (text.value or b"unknown error").decode("utf-8", "replace"))

    def context(self, device: int) -> int:
        """Return the primary context of a device, which stays alive from here on."""
        handle, held = ctypes.c_int(), ctypes.c_void_p()
        self.check("cuDeviceGet", ctypes.byref(handle), device)
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(held), handle)
        return int(held.value or 0)

    def attribute(self, device: int, number: int) -> int:
        """Return an attribute of a device by CUDA's number."""
        handle, value = ctypes.c_int(), ctypes.c_int()
        self.check("cuDeviceGet", ctypes.byref(handle), device)
        self.check("cuDeviceGetAttribute", ctypes.byref(value), number, handle)
        return value.value

    def capability(self, device: int) -> tuple[int, int]:
        """Return the compute capability of a device, as (9, 0)."""
        major = self.attribute(device, _CAPABILITY_MAJOR)
        return major, self.attribute(device, _CAPABILITY_MINOR)

    def device_name(self, device: int) -> str:
        """Return the name of a device, as "NVIDIA H200"."""
        handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        self.check("cuDeviceGet", ctypes.byref(handle), device)
        self.check("cuDeviceGetName", name, len(name), handle)
        return name.value.decode("utf-8", "replace")

    def clear(self, address: int, length: int, stream: int) -> None:
        """Fill ``length`` bytes with zeros, on a stream."""
        if code := self._memset(address, 0, length, stream):
            raise self.error("cuMemsetD8Async", code)

    def load(
        self, cubin: bytes, name: str, device: int, *, threads: int, shared_bytes: int
    ) -> Function:
        """Load a kernel into a device's primary context.

        ``threads`` are those of a block, ``shared_bytes`` its dynamic shared memory. Raises
        TooLarge where the device cannot hold it, CudaError where it takes no such binary.
        """
        limit = self.attribute(device, _SHARED_OPTIN)
        if shared_bytes > limit:
            raise TooLarge("shared memory", shared_bytes, limit)
        context = self.context(device)
        self.check("cuCtxSetCurrent", ctypes.c_void_p(context))
        module, handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("cuModuleLoadData", ctypes.byref(module), cubin)
        self.check("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        most = ctypes.c_int()
        self.check("cuFuncGetAttribute", ctypes.byref(most), _MAX_THREADS, handle)
        if threads > most.value:
            raise TooLarge("threads", threads, most.value)
        if shared_bytes > SHARED_UNASKED:
            self.check("cuFuncSetCacheConfig", handle, _PREFER_SHARED)
            self.check("cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED, shared_bytes)
        return Function(self, int(handle.value or 0), context, threads, shared_bytes)

    def encode(self, place: int, box: Box, address: int) -> None:
        """Write the tensor map of a box over ``address`` to ``place``, a multiple of 64."""
        rank = len(box.shape)
        extents = (ctypes.c_uint64 * rank)(*box.shape[::-1])
        # Strides in bytes but of the fastest dimension, which is one element.
        pitches = (ctypes.c_uint64 * rank)(*(s * box.element_bytes for s in box.strides[-2::-1]))
        block = (ctypes.c_uint32 * rank)(*box.block[::-1])
        ones = (ctypes.c_uint32 * rank)(*[1] * rank)
        self.check(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(place),
            box.element_type,
            rank,
            ctypes.c_void_p(address),
            extents,
            pitches,
            block,
            ones,
            0,  # CU_TENSOR_MAP_INTERLEAVE_NONE
            box.swizzle,
            _L2_PROMOTION,
            0,  # CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE: zeros
        )


class Function:
    """A kernel loaded into one context, for as long as the process lives, and its blocks' size."""

    def __init__(
        self, driver: Driver, handle: int, context: int, threads: int, shared_bytes: int
    ) -> None:
        self.driver = driver
        self.handle = handle
        self.context = context
        self.threads = threads
        self.shared_bytes = shared_bytes

    def bind(
        self,
        grid: tuple[int, int, int],
        arguments: Sequence[Argument],
        addresses: Mapping[str, int],
    ) -> Binding:
        """Lay out all arguments for buffers at these addresses. Right for as long as the process
        lives, whoever owns that memory: it depends on nothing else."""
        return Binding(self, grid, arguments, addresses)


class Binding:
    """A kernel with its grid and all its arguments, to be started any number of times, from any
    thread: starting reads it and changes nothing."""

    __slots__ = ("_function", "_grid", "_held", "_launch", "_ready", "_table")

    def __init__(
        self,
        function: Function,
        grid: tuple[int, int, int],
        arguments: Sequence[Argument],
        addresses: Mapping[str, int],
    ) -> None:
        self._function = function
        self._launch = function.driver.launch
        self._grid = grid
        layout = Layout(arguments)
        self._held = (ctypes.c_byte * (layout.bytes + MAP_ALIGNMENT))()
        base = -(-ctypes.addressof(self._held) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        for offset, argument in layout.heads:
            address = addresses[argument.buffer]
            if isinstance(argument, Box):
                function.driver.encode(base + offset, argument, address)
            else:
                ctypes.c_uint64.from_address(base + offset).value = address
        for offset, packed in layout.rest:
            ctypes.memmove(base + offset, packed, len(packed))
        self._table = (ctypes.c_void_p * len(layout.offsets))(*(base + o for o in layout.offsets))
        #: What the call that starts it takes, by stream.
        self._ready: dict[int, tuple[Any, ...]] = {}

    def start(self, stream: int) -> None:
        """Start the kernel on a stream, given as the driver's handle, of the function's device.

        Raises CudaError, or ForkedProcess.
        """
        ready = self._ready.get(stream) or self._on(stream)
        if code := self._launch(*ready):
            self._again(code, ready)

    def _on(self, stream: int) -> tuple[Any, ...]:
        function = self._function
        shape = (*self._grid, function.threads, 1, 1, function.shared_bytes)
        config = _LaunchConfig(*shape, stream, None, 0)
        handle = ctypes.c_void_p(function.handle)
        ready = (ctypes.byref(config), handle, self._table, None)
        if len(self._ready) >= MOST_STREAMS:
            self._ready = {}
        self._ready[stream] = ready
        return ready

    def _again(self, code: int, ready: tuple[Any, ...]) -> None:
        """Start again in the right context where the thread had none or another's."""
        driver = self._function.driver
        if code in _NO_CONTEXT and not _forked:
            driver.check("cuCtxSetCurrent", ctypes.c_void_p(self._function.context))
            code = self._launch(*ready)
        if code:
            raise driver.error("cuLaunchKernelEx", code)


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig: grid, block, dynamic shared memory in bytes, stream, and no attributes."""

    _fields_ = [
        *((f"grid_{axis}", ctypes.c_uint) for axis in "xyz"),
        *((f"block_{axis}", ctypes.c_uint) for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class Layout:
    """Where the parts of arguments lie in one piece of memory, one part after another: ``offsets``
    and ``sizes`` in bytes, as the binary has them in its parameter list."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self.bytes = 0
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        #: Tensor maps and addresses, which depend on where buffers are.
        self.heads: list[tuple[int, Argument]] = []
        #: What does not: extents, strides, and no scratch.
        self.rest: list[tuple[int, bytes]] = []
        for argument in arguments:
            boxed = isinstance(argument, Box)
            place = self._take(MAP_BYTES, MAP_ALIGNMENT) if boxed else self._take(8, 8)
            self.heads.append((place, argument))
            if isinstance(argument, Box):
                for extent in argument.shape:
                    self.rest.append((self._take(4, 4), struct.pack("<i", extent)))
                for stride in argument.strides:
                    self.rest.append((self._take(8, 8), struct.pack("<q", stride)))
        for _ in range(2):
            self.rest.append((self._take(8, 8), struct.pack("<q", 0)))

    def _take(self, length: int, alignment: int) -> int:
        place = -(-self.bytes // alignment) * alignment
        self.bytes = place + length
        self.offsets.append(place)
        self.sizes.append(length)
        return place


_lock = threading.Lock()


def driver() -> Driver:
    """Return the machine's driver; raises NoDriver where there is none."""
    with _lock:
        return _driver()


@cache
def _driver() -> Driver:
    return Driver()


def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoDriver(f"there is no CUDA driver here: {error}") from error


def _call(library: ctypes.CDLL, name: str, *types: Any) -> Callable[..., int]:
    """Return a call of its own; raises NoDriver where the driver is too old to have it."""
    try:
        call = library[name]
    except AttributeError as error:
        raise NoDriver(f"the CUDA driver here has no {name}: it is too old") from error
    if types:
        call.argtypes = types
    call.restype = ctypes.c_int
    return call


def _mark_forked() -> None:
    global _forked
    if _driver.cache_info().currsize:
        _forked = True


os.register_at_fork(after_in_child=_mark_forked)
