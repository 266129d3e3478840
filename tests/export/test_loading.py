"""An exported folder is loaded by a driver that computes nothing: what it starts is the plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from autosched.export.manifest import Compiled
from autosched.export.shipped import autosched_kernels as loader
from autosched.export.shipped import autosched_manifest
from measure import cuda
from search_space.program import Buffer, DescriptorArgument

pytestmark = pytest.mark.usefixtures("fake_cuda")

ALL = ("descriptors", "counter", "atomic", "prepared", "convolution")


@pytest.fixture
def kernels(sample: Any, fake_cuda: Any) -> loader.Kernels:
    made = loader.load(sample.folder, library=fake_cuda.library)
    fake_cuda.reset()
    return made


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Every tensor that is made while a test runs, filled with what nobody wrote."""
    made: list[torch.Tensor] = []
    plain = torch.empty_strided

    def garbage(*arguments: Any, **options: Any) -> torch.Tensor:
        made.append(plain(*arguments, **options).fill_(7))
        return made[-1]

    monkeypatch.setattr(torch, "empty_strided", garbage)
    return made


def tensor(buffer: Buffer | autosched_manifest.Buffer) -> torch.Tensor:
    return torch.zeros(buffer.shape, dtype=loader.DTYPES[buffer.dtype])


def inputs(function: loader.Function) -> list[torch.Tensor]:
    return [tensor(buffer) for buffer in function.workload.inputs]


def compiled(sample: Any, why: str) -> Compiled:
    return next(one for one in sample.made.workloads if one.name == sample.names[why])


def as_planned(one: Compiled, launches: list[dict[str, Any]], addresses: dict[str, int]) -> None:
    """Hold launches against the plan of a program; adds the addresses that are not known yet."""
    kernels = [k for k in one.kernels if k[0].name in {launch["function"] for launch in launches}]
    for (kernel, entry), launch in zip(kernels, launches, strict=True):
        assert launch["function"] == kernel.name
        assert launch["grid"] == list(kernel.grid)
        assert launch["block"] == [32 * kernel.warps, 1, 1]
        assert (launch["shared_bytes"], launch["attributes"]) == (entry.shared_bytes, 0)
        parameters = iter(map(bytes.fromhex, launch["parameters"]))
        for argument, laid_out in zip(kernel.arguments, entry.arguments, strict=True):
            head = next(parameters)
            address = int.from_bytes(head[:8], "little")
            assert address == addresses.setdefault(argument.buffer, address)
            if not isinstance(argument, DescriptorArgument):
                assert len(head) == 8
                continue
            assert isinstance(laid_out, cuda.Box)
            rank, width = len(argument.shape), laid_out.element_bytes
            numbers = [int.from_bytes(head[8 * i : 8 * i + 8], "little") for i in range(16)]
            assert numbers[1 : rank + 1] == list(argument.shape[::-1])
            assert numbers[6 : 5 + rank] == [s * width for s in argument.strides[-2::-1]]
            block = [int.from_bytes(head[80 + 4 * i : 84 + 4 * i], "little") for i in range(rank)]
            assert block == list(laid_out.block[::-1])
            assert head[105:107] == bytes((laid_out.element_type, rank))
            assert head[108] == laid_out.swizzle
            extents = [int.from_bytes(next(parameters), "little") for _ in range(rank)]
            assert extents == list(argument.shape)
            strides = [int.from_bytes(next(parameters), "little") for _ in range(rank)]
            assert strides == list(argument.strides)
        assert list(parameters) == [bytes(8)] * 2


@pytest.mark.parametrize("why", ALL)
def test_what_is_started_is_the_launch_plan(
    why: str, sample: Any, kernels: loader.Kernels, fake_cuda: Any
) -> None:
    function = kernels[sample.names[why]]
    given = inputs(function)
    out = function(*given)
    addresses = {b.name: t.data_ptr() for b, t in zip(function.workload.inputs, given, strict=True)}
    addresses[function.workload.output.name] = out.data_ptr()
    one = compiled(sample, why)
    launches = fake_cuda.calls("launch")
    assert len(launches) == len(one.entries)
    as_planned(one, launches, addresses)
    assert addresses.keys() == {buffer.name for buffer in function.workload.buffers}
    assert len(set(addresses.values())) == len(addresses)
    assert (out.dtype, tuple(out.shape)) == (
        loader.DTYPES[function.workload.output.dtype],
        function.workload.output.shape,
    )
    # The same addresses once more: nothing is laid out again, the same is started.
    assert function(*given, out=out) is out


def test_a_workspace_is_cleared_where_it_must_be(
    sample: Any, kernels: loader.Kernels, allocated: list[torch.Tensor]
) -> None:
    for why, cleared in (("counter", [False, True, False]), ("atomic", [True, False])):
        function = kernels[sample.names[why]]
        given = inputs(function)
        allocated.clear()
        function(*given)
        found = sorted(bool((t == 0).all()) for t in allocated)
        assert found == sorted(cleared), why
        assert all(bool((t == 0).all() or (t == 7).all()) for t in allocated)


def test_what_is_prepared_is_left_out_of_calls(
    sample: Any, kernels: loader.Kernels, fake_cuda: Any
) -> None:
    function = kernels[sample.names["prepared"]]
    a, b = inputs(function)
    prepared = function.prepare(b)
    [packing] = fake_cuda.calls("launch")
    fake_cuda.reset()
    function(a, b, prepared=prepared)
    [launch] = fake_cuda.calls("launch")
    assert packing["function"] != launch["function"]
    addresses = {"A": a.data_ptr(), "B": b.data_ptr()}
    as_planned(compiled(sample, "prepared"), [packing, launch], addresses)
    assert addresses["B_packed"] == prepared.tensors["B_packed"].data_ptr()
    fake_cuda.reset()
    function(a, b)
    assert len(fake_cuda.calls("launch")) == 2


def test_tensors_that_no_kernel_takes_are_refused(sample: Any, kernels: loader.Kernels) -> None:
    function = kernels[sample.names["descriptors"]]
    a, b, bias = inputs(function)
    name = function.workload.name
    wrong: list[tuple[list[Any], str]] = [
        ([a, b], f"{name} takes 3 inputs, not 2"),
        ([a, b, 1.0], "bias is a float, not a torch tensor"),
        ([a.half(), b, bias], r"A must be of dtype torch.bfloat16, and is of dtype torch.float16"),
        ([a[:64], b, bias], r"A must be of shape \(128, 64\), and is of shape \(64, 64\)"),
        ([a, b.t(), bias], r"B must have strides \(64, 1\), and has \(1, 64\)"),
        ([a, b, torch.zeros(65, dtype=bias.dtype)[1:]], "bias must begin at a multiple of 16"),
        ([a.to("meta"), b, bias], "A must be on cpu, and is on meta"),
        ([a.clone().requires_grad_(), b, bias], "A requires grad, and these kernels have no back"),
    ]
    for given, message in wrong:
        with pytest.raises(loader.WrongTensor, match=message):
            function(*given)
    both = torch.zeros(256, 64, dtype=a.dtype)
    with pytest.raises(loader.WrongTensor, match="out shares memory with A"):
        function(both[:128], b, bias, out=both[64:192])
    with pytest.raises(loader.WrongTensor, match=r"C must be of shape"):
        function(a, b, bias, out=both)
    with pytest.raises(loader.WrongTensor, match="prepares nothing, not 1 tensors"):
        function.prepare(b)
    with pytest.raises(loader.WrongTensor, match="what is prepared is"):
        function(a, b, bias, prepared=kernels[sample.names["atomic"]].prepare())


def test_a_gpu_that_it_was_not_built_for_is_refused(sample: Any, fake_cuda: Any) -> None:
    for gpu in (("NVIDIA H100 80GB HBM3", 9, 0), ("NVIDIA H200", 10, 0)):
        fake_cuda.be(*gpu)
        with pytest.raises(loader.WrongGpu) as caught:
            loader.load(sample.folder, library=fake_cuda.library)
        assert "was built for NVIDIA H200 of compute capability 9.0; this GPU is " in str(
            caught.value
        )
        assert f"{gpu[0]} of compute capability {gpu[1]}.{gpu[2]}" in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so(sample: Any) -> None:
    with pytest.raises(loader.WrongGpu, match="torch sees no CUDA device here"):
        loader.load(sample.folder)


def test_functions_are_found_by_name_and_by_key(sample: Any, kernels: loader.Kernels) -> None:
    assert set(kernels) == set(sample.names.values())
    for function in kernels.values():
        assert kernels[function.workload.key] is function
    with pytest.raises(KeyError, match="'gemm' is not among matmul_"):
        kernels["gemm"]


def test_what_is_laid_out_does_not_pile_up(
    sample: Any, kernels: loader.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "MOST_BINDINGS", 3)
    function = kernels[sample.names["convolution"]]
    held = [inputs(function) for _ in range(8)]
    for given in held:
        function(*given)
    assert len(function._known) <= 3


IN_A_PROCESS_WITHOUT_TRITON = """
import ctypes, json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("triton", "autosched", "measure", "search_space"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refuse())
folder, library = sys.argv[1:]
sys.path.insert(0, folder)
import torch
import autosched_kernels, kernels

fake = ctypes.CDLL(library)
fake.fake_cuda_log.restype = ctypes.c_char_p
loaded = autosched_kernels.load(folder, library=fake)
kernels.kernels = lambda device: loaded
for name, function in loaded.items():
    inputs = [torch.zeros(b.shape, dtype=autosched_kernels.DTYPES[b.dtype])
              for b in function.workload.inputs]
    getattr(kernels, name)(*inputs)
log = [json.loads(line) for line in fake.fake_cuda_log().splitlines()]
sys.path.insert(0, ".")
import shipped.kernels  # as a part of something else
assert shipped.kernels.autosched_kernels is not autosched_kernels
assert dir(shipped.kernels) == dir(kernels)
try:
    shipped.kernels.kernels()
except shipped.kernels.autosched_kernels.WrongGpu:
    assert not torch.cuda.is_available()
present = [m for m in ("triton", "autosched", "measure") if m in sys.modules]
print(json.dumps([[c["function"] for c in log if c["call"] == "launch"], present]))
"""


def test_a_folder_needs_neither_triton_nor_this_package(
    sample: Any, fake_cuda: Any, tmp_path: Path
) -> None:
    shutil.copytree(sample.folder, tmp_path / "shipped")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_WITHOUT_TRITON, sample.folder, fake_cuda.path],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    started, present = json.loads(done.stdout)
    assert present == []
    assert started == [k.name for one in sample.made.workloads for k, _ in one.kernels]
