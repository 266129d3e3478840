"""Arguments lie as the compiler wants them, and starting says what went wrong."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hand_kernels as kernels
import pytest

from autosched.codegen.render import render
from autosched.runtime.default import default_schedules
from autosched.te.operators import matmul
from measure import cuda
from measure.compiler import BadKernel, compile_kernel, cuobjdump, entry_of
from search_space import target as targets
from search_space.program import DescriptorArgument, Kernel, Program

H200 = targets.load("h200")
BOX = cuda.Box("A", (100, 64), (72, 1), (16, 32), 2, 6, 3)
#: Ordinal, offset and size of each parameter, as the binary's own table has them.
PARAMETER = re.compile(r"Ordinal : 0x(\w+)\s+Offset  : 0x(\w+)\s+Size    : 0x(\w+)")


class Calls:
    """Calls of a driver, each an attribute; keeps what was asked, fails as it is told."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[Any, ...]]] = []
        self.fails: dict[str, list[int]] = {}
        self.encoded: list[dict[str, Any]] = []
        self.started: list[bytes] = []
        self.launched: list[tuple[Any, ...]] = []
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, arguments)

    def __getitem__(self, name: str) -> Any:
        return SimpleCall(lambda *arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.made.append((name, arguments))
        if self.fails.get(name):
            return self.fails[name].pop(0)
        special = getattr(self, f"_{name}", None)
        if special:
            special(*arguments)
        return 0

    def _cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> None:  # noqa: N802
        del device
        ctypes.cast(value, ctypes.POINTER(ctypes.c_int))[0] = {97: 232448, 75: 9, 76: 0}[number]

    def _cuFuncGetAttribute(self, value: Any, number: int, function: Any) -> None:  # noqa: N802
        del number, function
        ctypes.cast(value, ctypes.POINTER(ctypes.c_int))[0] = 1024

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> None:  # noqa: N802
        del module, name
        ctypes.cast(function, ctypes.POINTER(ctypes.c_void_p))[0] = 77

    def _cuTensorMapEncodeTiled(self, *arguments: Any) -> None:  # noqa: N802
        place, kind, rank, address, extents, pitches, block, ones, *rest = arguments
        assert place.value % cuda.MAP_ALIGNMENT == 0
        assert list(ones) == [1] * rank
        self.encoded.append(
            {
                "type": kind,
                "address": address.value,
                "extents": list(extents),
                "pitches": list(pitches)[: rank - 1],
                "block": list(block),
                "rest": rest,
            }
        )
        ctypes.memset(place.value, 0xAB, cuda.MAP_BYTES)

    def _cuLaunchKernelEx(self, *arguments: Any) -> None:  # noqa: N802
        config, function, table, _ = arguments
        parts = zip(table, self.sizes, strict=True)
        self.started.append(b"".join(ctypes.string_at(place, size) for place, size in parts))
        values = [getattr(config._obj, name) for name, _ in config._obj._fields_]
        self.launched.append((function.value, *values))


class SimpleCall(SimpleNamespace):
    """A callable with attributes that anyone may set, as ctypes' functions have."""

    def __init__(self, call: Any) -> None:
        super().__init__(call=call)

    def __call__(self, *arguments: Any) -> int:
        return int(self.call(*arguments))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def function(calls: Calls) -> cuda.Function:
    driver = cuda.Driver(calls)  # type: ignore[arg-type]
    return driver.load(b"cubin", "kernel", 0, threads=128, shared_bytes=100_000)


def parameters(cubin: bytes, folder: Path) -> list[tuple[int, int]]:
    """Return offset and size of each parameter of a binary, offsets from the first."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    tool = cuobjdump()
    assert tool is not None
    text = subprocess.run([tool, "-elf", path], capture_output=True, text=True, check=True).stdout
    found = sorted({tuple(int(n, 16) for n in match) for match in PARAMETER.findall(text)})
    assert [ordinal for ordinal, *_ in found] == list(range(len(found)))
    first = found[0][1]
    return [(offset - first, size) for _, offset, size in found]


@pytest.mark.parametrize("choice", range(3))
def test_arguments_lie_as_the_binary_has_them(choice: int, tmp_path: Path) -> None:
    work = matmul(512, 256, 128, dtype="bfloat16", epilogue=("bias",))
    program = render(work, default_schedules(work, H200)[choice].schedule, H200)
    for kernel in program.kernels:
        compiled = compile_kernel(program, kernel, H200.triton_target)
        entry = entry_of(compiled, kernel)
        layout = cuda.Layout(entry.arguments)
        wanted = parameters(entry.cubin, tmp_path)
        assert list(zip(layout.offsets, layout.sizes, strict=True)) == wanted
        assert (entry.threads, entry.name) == (32 * kernel.warps, kernel.name)
        boxes = [a for a in entry.arguments if isinstance(a, cuda.Box)]
        given = [a for a in kernel.arguments if isinstance(a, DescriptorArgument)]
        assert [(b.buffer, b.shape, b.strides) for b in boxes] == [
            (a.buffer, a.shape, a.strides) for a in given
        ]


def test_a_kernel_that_needs_more_than_a_launch_is_refused() -> None:
    program = kernels.pointer_matmul(kernels.workload(64, 64, 64), (32, 32, 32))
    compiled = compile_kernel(program, program.kernels[0], H200.triton_target)
    compiled.metadata = compiled.metadata._replace(global_scratch_size=128)
    with pytest.raises(BadKernel, match="a launch with global_scratch_size is not made here"):
        entry_of(compiled, program.kernels[0])


def test_what_is_bound_is_what_is_started(calls: Calls, function: cuda.Function) -> None:
    arguments = (cuda.Address("C"), BOX)
    calls.sizes = cuda.Layout(arguments).sizes
    binding = function.bind((3, 2, 1), arguments, {"A": 0x7F0000, "C": 0x5000})
    binding.start(9)
    binding.start(9)
    expected = (
        (0x5000).to_bytes(8, "little")
        + b"\xab" * 128
        + b"".join(n.to_bytes(4, "little") for n in (100, 64))
        + b"".join(n.to_bytes(8, "little") for n in (72, 1))
        + bytes(16)
    )
    assert calls.started == [expected, expected]
    assert calls.encoded == [
        {
            "type": 6,
            "address": 0x7F0000,
            "extents": [64, 100],
            "pitches": [144],
            "block": [32, 16],
            "rest": [0, 3, 2, 0],
        }
    ]
    assert calls.launched == [(77, 3, 2, 1, 128, 1, 1, 100_000, 9, None, 0)] * 2
    binding.start(0)
    assert calls.launched[2][8] is None


def test_dynamic_shared_memory_is_asked_for(calls: Calls, function: cuda.Function) -> None:
    asked = [a[1:] for name, a in calls.made if name == "cuFuncSetAttribute"]
    assert asked == [(8, 100_000)]
    calls.made.clear()
    function.driver.load(b"cubin", "kernel", 0, threads=128, shared_bytes=48 * 1024)
    assert not [name for name, _ in calls.made if name.startswith("cuFuncSet")]


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"threads": 128, "shared_bytes": 232449}, "shared memory: 232449 needed"),
        ({"threads": 2048, "shared_bytes": 0}, "threads: 2048 needed, the device has 1024"),
    ],
)
def test_a_kernel_that_does_not_fit_is_refused(
    function: cuda.Function, how: dict[str, int], what: str
) -> None:
    with pytest.raises(cuda.TooLarge, match=what):
        function.driver.load(b"cubin", "kernel", 0, **how)


def test_a_thread_without_a_context_gets_the_functions(
    calls: Calls, function: cuda.Function
) -> None:
    binding = function.bind((1, 1, 1), (cuda.Address("C"),), {"C": 16})
    calls.sizes = [8, 8, 8]
    calls.fails["cuLaunchKernelEx"] = [201]
    calls.made.clear()
    binding.start(0)
    assert [name for name, _ in calls.made] == [
        "cuLaunchKernelEx",
        "cuCtxSetCurrent",
        "cuLaunchKernelEx",
    ]
    calls.fails["cuLaunchKernelEx"] = [1]
    with pytest.raises(cuda.CudaError, match=r"cuLaunchKernelEx: .* \(CUDA error 1\)"):
        binding.start(0)


def test_after_a_fork_the_error_says_so(
    calls: Calls, function: cuda.Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding = function.bind((1, 1, 1), (cuda.Address("C"),), {"C": 16})
    monkeypatch.setattr(cuda, "_forked", True)
    calls.fails["cuLaunchKernelEx"] = [3]
    with pytest.raises(cuda.ForkedProcess, match="start processes by spawn"):
        binding.start(0)


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda.so.999")
    with pytest.raises(cuda.NoDriver, match="there is no CUDA driver here"):
        cuda._library()


def test_kernels_of_one_text_have_one_identity() -> None:
    from measure.compiler import identity

    w = kernels.workload(256, 128, 64)
    program = kernels.descriptor_matmul(w, (64, 64, 64))
    kernel = program.kernels[0]
    other = Kernel(
        kernel.name,
        kernel.source,
        tuple(
            DescriptorArgument(a.buffer, (1, *a.shape[1:]), a.strides, a.block)
            if isinstance(a, DescriptorArgument)
            else a
            for a in kernel.arguments
        ),
        (1, 1, 1),
        kernel.warps,
        kernel.stages,
    )
    narrowed = Program(program.buffers, (other,), program.rendering_version)
    assert identity(program, kernel) == identity(narrowed, other)
    wider = Kernel(kernel.name, kernel.source, kernel.arguments, kernel.grid, 8, kernel.stages)
    assert identity(program, kernel) != identity(program, wider)


@pytest.mark.parametrize("choice", [0, 2])
def test_a_real_binary_gets_the_arguments_it_was_compiled_for(choice: int, fake_cuda: Any) -> None:
    """The driver reads as many bytes of each argument as the binary says: they are those meant."""
    work = matmul(256, 192, 128, dtype="float16")
    program = render(work, default_schedules(work, H200)[choice].schedule, H200)
    [kernel] = program.kernels
    entry = entry_of(compile_kernel(program, kernel, H200.triton_target), kernel)
    driver = cuda.Driver(fake_cuda.library)
    shape = {"threads": entry.threads, "shared_bytes": entry.shared_bytes}
    function = driver.load(entry.cubin, entry.name, 0, **shape)
    addresses = {"A": 0x10000, "B": 0x20000, "C": 0x30000}
    function.bind(kernel.grid, entry.arguments, addresses).start(5)
    [launch] = fake_cuda.calls("launch")
    assert launch["grid"] == list(kernel.grid)
    assert launch["block"] == [entry.threads, 1, 1]
    assert (launch["shared_bytes"], launch["stream"]) == (entry.shared_bytes, 5)
    parameters = iter(map(bytes.fromhex, launch["parameters"]))
    for argument in entry.arguments:
        head = next(parameters)
        assert head[:8] == addresses[argument.buffer].to_bytes(8, "little")
        if isinstance(argument, cuda.Box):
            assert len(head) == cuda.MAP_BYTES
            parts = [int.from_bytes(next(parameters), "little") for _ in range(4)]
            assert parts == [*argument.shape, *argument.strides]
    assert list(parameters) == [bytes(8), bytes(8)]
