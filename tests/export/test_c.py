"""The C of an exported folder compiles without a warning, and starts what Python starts."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from autosched.export.c_text import hash_of
from autosched.export.shipped import autosched_kernels as loader
from autosched.export.shipped import autosched_manifest

gcc = shutil.which("gcc")
pytestmark = pytest.mark.skipif(gcc is None, reason="no gcc")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def includes() -> list[Path]:
    """Where NVIDIA's own cuda.h lies, if anywhere."""
    import triton

    found = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    return [found] if (found / "cuda.h").is_file() else []


def compile_(folder: Path, *arguments: Any) -> None:
    done = subprocess.run(
        [gcc, *STRICT, "example.c", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def example(sample: Any, fake_cuda_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, linked to the driver that computes nothing."""
    path = tmp_path_factory.mktemp("example") / "example"
    compile_(sample.folder, "-DAUTOSCHED_NO_CUDA_H", "-o", path, fake_cuda_library)
    return path


def run(
    example: Path, library: Path, log: Path, *arguments: Any, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [example, *arguments],
        env={"LD_LIBRARY_PATH": str(library.parent), "FAKE_CUDA_LOG": str(log), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_compiles_with_nvidias_header_and_without(sample: Any) -> None:
    compile_(sample.folder, "-fsyntax-only", "-DAUTOSCHED_NO_CUDA_H")
    if shutil.which("g++"):
        flags = ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        command = ["g++", *flags, "-DAUTOSCHED_NO_CUDA_H", "autosched.h"]
        done = subprocess.run(command, cwd=sample.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for folder in includes():
        compile_(sample.folder, "-fsyntax-only", "-isystem", folder)


def addressed(launches: list[dict[str, Any]], addresses: dict[str, int]) -> list[dict[str, Any]]:
    """Return launches with buffers' names in place of their addresses."""
    names = {a.to_bytes(8, "little").hex(): name for name, a in addresses.items()}
    shown = []
    for launch in launches:
        parts = [
            names.get(part[:16], part[:16]) + part[16:] if len(part) >= 16 else part
            for part in launch["parameters"]
        ]
        shown.append({**launch, "parameters": parts, "module": None})
    return shown


@pytest.mark.parametrize("why", ["descriptors", "counter", "atomic", "prepared", "convolution"])
def test_it_starts_what_python_starts(
    why: str, sample: Any, example: Path, fake_cuda: Any, tmp_path: Path
) -> None:
    name = sample.names[why]
    log = tmp_path / "log"
    done = run(example, fake_cuda.path, log, sample.folder, name)
    assert done.returncode == 0, done.stderr
    assert f"{name}: " in done.stdout
    assert "begins with 0 0 0 0" in done.stdout  # nothing was computed
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    kernels = loader.load(sample.folder, library=fake_cuda.library)
    function = kernels[name]
    held = [call["address"] for call in calls if call["call"] == "allocate"]
    buffers = [buffer.name for buffer in function.workload.buffers]
    by_c = addressed(
        [call for call in calls if call["call"] == "launch"],
        dict(zip(buffers, held, strict=True)),
    )
    tensors = {
        b.name: torch.zeros(b.shape, dtype=loader.DTYPES[b.dtype])
        for b in function.workload.buffers
    }
    fake_cuda.reset()
    function._clean = lambda buffer: tensors[buffer.name]  # type: ignore[method-assign]
    given = [tensors[b.name] for b in function.workload.inputs]
    function(*given, out=tensors[function.workload.output.name])
    by_python = addressed(fake_cuda.calls("launch"), {n: t.data_ptr() for n, t in tensors.items()})
    assert by_c == by_python
    cleared = [call["bytes"] for call in calls if call["call"] == "clear"]
    assert cleared == ([8192] if why == "atomic" else [])


def test_it_refuses_another_gpu_and_a_damaged_file(
    sample: Any, example: Path, fake_cuda_library: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    other = run(example, fake_cuda_library, log, sample.folder, FAKE_CUDA_NAME="NVIDIA H100")
    assert (other.returncode, other.stderr) == (
        1,
        "this GPU is refused: the kernels were built for another GPU model\n",
    )
    copied = Path(shutil.copytree(sample.folder, tmp_path / "kernels"))
    name = sample.names["descriptors"]
    file = copied / autosched_manifest.read(copied).workloads[0].kernels[0].file
    data = bytearray(file.read_bytes())
    data[1000] ^= 4
    file.write_bytes(data)
    damaged = run(example, fake_cuda_library, log, copied, name)
    assert damaged.returncode == 1
    assert "device kernel image is invalid" in damaged.stderr
    file.unlink()
    assert run(example, fake_cuda_library, log, copied, name).returncode == 1
    unknown = run(example, fake_cuda_library, log, copied, "gemm")
    assert (unknown.returncode, unknown.stderr) == (2, "there is no workload gemm\n")


def test_the_hash_is_fnv() -> None:
    # From the page of its authors, Fowler, Noll and Vo.
    assert hash_of(b"") == 0xCBF29CE484222325
    assert hash_of(b"foobar") == 0x85944171F73967E8
