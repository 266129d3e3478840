"""What is exported from a tuned log computes what torch computes, where there is no Triton."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from autosched.cli.main import main
from autosched.export.shipped import autosched_kernels as loader
from autosched.export.shipped import autosched_manifest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]

SPECS = (
    "matmul:m=512,n=256,k=384,dtype=float16,trans_b=true,epilogue=bias+relu",
    "matmul:m=64,n=64,k=16384,dtype=bfloat16",
    "matmul:m=128,n=200,k=100,dtype=float16,constant=b",
    "matmul:m=256,n=256,k=256,dtype=float32,precision=tf32",
    "conv2d:n=2,h=28,w=28,ci=64,co=64,kh=3,kw=3,pad=1,dtype=float16,layout=NHWC",
)

CHILD = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("triton", "autosched", "measure", "search_space"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
import torch
import autosched_kernels, kernels

torch.manual_seed(0)
DTYPES = autosched_kernels.DTYPES

def data(buffer):
    return torch.randn(buffer.shape, device="cuda").to(DTYPES[buffer.dtype])

def reference(name, tensors):
    wide = {n: t.double() for n, t in tensors.items()}
    if name.startswith("conv2d"):
        x, w = wide["X"].permute(0, 3, 1, 2), wide["W"].permute(0, 3, 1, 2)
        return torch.nn.functional.conv2d(x, w, padding=1).permute(0, 2, 3, 1)
    b = wide["B"].t() if "_nt" in name else wide["B"]
    product = wide["A"] @ b
    return (product + wide["bias"]).relu() if "bias" in wide else product

def error(result, want):
    return float((result.double() - want).abs().max() / want.abs().max())

report = {}
for name, function in kernels.kernels().items():
    inputs = [data(b) for b in function.workload.inputs]
    tensors = {b.name: t for b, t in zip(function.workload.inputs, inputs)}
    want = reference(name, tensors)
    call = getattr(kernels, name)
    found = {"call": error(call(*inputs), want)}
    found["again"] = error(call(*inputs), want)
    out = torch.full_like(call(*inputs), float("nan"))
    assert call(*inputs, out=out) is out
    found["out"] = error(out, want)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        aside = call(*inputs)
    stream.synchronize()
    found["stream"] = error(aside, want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = function(*inputs)
    for _ in range(3):
        held.fill_(float("nan"))
        graph.replay()
    torch.cuda.synchronize()
    found["graph"] = error(held, want)
    prepared = function.prepare(*(tensors[b.name] for b in function.workload.prepared))
    found["prepared"] = error(function(*inputs, prepared=prepared), want)
    report[name] = found
assert "triton" not in sys.modules
print(json.dumps(report))
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tune each workload for a few trials, and export the log."""
    place = tmp_path_factory.mktemp("export")
    log = place / "tuned.jsonl"
    for spec in SPECS:
        done = CliRunner().invoke(
            main, ["tune", spec, "--device", "cuda", "--trials", "8", "-o", str(log)]
        )
        assert done.exit_code == 0, done.stderr
    done = CliRunner().invoke(main, ["export", str(log), "-o", str(place / "kernels")])
    assert done.exit_code == 0, done.stderr
    assert len(autosched_manifest.read(place / "kernels").workloads) == len(SPECS), done.stderr
    return place / "kernels"


def test_a_process_without_triton_computes_what_torch_does(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, folder],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report) == len(SPECS)
    wrong = {name: found for name, found in report.items() if not max(found.values()) < 1e-2}
    assert wrong == {}


def test_here_it_is_loaded_beside_the_run_time(folder: Path) -> None:
    kernels = loader.load(folder, torch.cuda.current_device())
    function = next(f for n, f in kernels.items() if n.startswith("matmul_64x64x16384"))
    a, b = (torch.randn(t.shape, device="cuda").bfloat16() for t in function.workload.inputs)
    torch.testing.assert_close(function(a, b), a @ b, rtol=2e-2, atol=2.0)
    with pytest.raises(loader.WrongTensor, match="A must be on cuda:0, and is on cpu"):
        function(a.cpu(), b)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_example_in_c_adds_up(folder: Path, tmp_path: Path) -> None:
    """All inputs are 1: a sum over k of them is k."""
    example = tmp_path / "example"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-DAUTOSCHED_NO_CUDA_H"]
    command = ["gcc", *flags, "example.c", "-o", example, "-l:libcuda.so.1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if "cannot find -l:libcuda.so.1" in done.stderr:
        pytest.skip("the linker does not find libcuda.so.1")
    assert done.returncode == 0, done.stderr
    for workload in autosched_manifest.read(folder).workloads:
        ran = subprocess.run(
            [example, folder, workload.name], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        if not workload.name.startswith("matmul"):
            continue
        k = int(workload.name.split("_")[1].split("x")[2])
        wish = k + any(buffer.name == "bias" for buffer in workload.inputs)
        first = float(ran.stdout.split("begins with ")[1].split()[0])
        assert first == pytest.approx(wish, rel=4e-3), ran.stdout
