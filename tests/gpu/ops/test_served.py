"""Layers served by kernels on a GPU: eager, compiled, captured, and with gradients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import autosched

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]
SPECS = (
    "conv2d:n=4,h=16,w=16,ci=64,co=64,kh=3,kw=3,pad=1,dtype=float16",
    "matmul:m=64,n=256,k=64,dtype=float16,trans_b=true,epilogue=bias",
)


class Model(torch.nn.Module):
    """A convolution with channels last and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.head = torch.nn.Linear(64, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [64, 256] of [4, 64, 16, 16]."""
        y = self.conv(x)
        return self.head(y[:, :, ::4, ::4].permute(0, 2, 3, 1).reshape(64, 64))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ops") / "log.jsonl"
    how = ("--trials", "8", "--device", "cuda", "-q", "-o", str(path))
    command = [sys.executable, "-m", "autosched.cli.main", "tune", *SPECS, *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def built() -> tuple[Model, torch.Tensor]:
    torch.manual_seed(3)
    model = Model().cuda().half().eval().to(memory_format=torch.channels_last)
    x = torch.randn(4, 64, 16, 16, device="cuda").half()
    return model, x.to(memory_format=torch.channels_last)


def close(made: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(made, want, rtol=5e-3, atol=2e-2)


def test_a_model_is_served_every_way(log: Path, built: tuple[Model, torch.Tensor]) -> None:
    model, x = built
    with torch.no_grad():
        want = model(x)
        tuned = autosched.load(log, prefer="tuned")  # eight trials may well lose to torch
        done = autosched.accelerate(model, tuned, x)
        assert [layer.source for layer in done.layers] == ["tuned", "tuned"], str(done)
        for _ in range(3):
            close(model(x), want)
        close(torch.compile(model, fullgraph=True)(x), want)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = model(x)
        made.zero_()
        graph.replay()
        close(made, want)
    done.restore()
    assert type(model.conv) is torch.nn.Conv2d


def test_gradients_are_those_of_torch(log: Path, built: tuple[Model, torch.Tensor]) -> None:
    model, x = built
    model(x).float().square().mean().backward()
    want = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    autosched.accelerate(model, autosched.load(log, prefer="tuned"))
    model(x).float().square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, want[name], rtol=2e-2, atol=1e-3)
