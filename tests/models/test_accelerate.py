"""Layers change their class and nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

import autosched

SMALL = Path(__file__).parent / "small.py"


@pytest.fixture
def small() -> ModuleType:
    spec = importlib.util.spec_from_file_location("small_model", SMALL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "empty.jsonl"
    path.touch()
    return path


def test_a_model_is_what_it_was(small: ModuleType, log: Path) -> None:
    model, x = small.built()
    want, names = model(x), list(model.state_dict())
    classes = {name: type(module) for name, module in model.named_modules()}
    done = autosched.accelerate(model, log)
    assert done.replaced == ("first", "second", "head")  # circular padding is left alone
    assert isinstance(model.first, torch.nn.Conv2d)
    assert list(model.state_dict()) == names
    torch.testing.assert_close(model(x), want)
    done.restore()
    done.restore()
    assert {name: type(module) for name, module in model.named_modules()} == classes
    torch.testing.assert_close(model(x), want)


def test_with_an_example_layers_without_a_kernel_are_left_alone(
    small: ModuleType, log: Path
) -> None:
    model, x = small.built()
    done = autosched.accelerate(model, log, x)
    assert done.replaced == ()
    assert [layer.source for layer in done.layers] == ["torch"] * 3
    assert str(done).startswith("0 of 3 layers by kernels of the log")


def test_training_goes_on(small: ModuleType, log: Path) -> None:
    model, x = small.built()
    model(x).sum().backward()
    want = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    autosched.accelerate(model, log)
    model(x).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, want[name])


def test_a_compiled_model_has_full_graphs(small: ModuleType, log: Path) -> None:
    model, x = small.built()
    want = model(x)
    autosched.accelerate(model, log)
    with torch.no_grad():
        made = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(made, want)


SERVE_IN_THE_INTERPRETER = """
import importlib.util, json, sys, warnings
import torch, autosched
from autosched import ops
warnings.simplefilter("ignore")
spec = importlib.util.spec_from_file_location("small", sys.argv[2])
small = importlib.util.module_from_spec(spec); spec.loader.exec_module(small)
torch.manual_seed(0)
model, x = small.built(torch.float16)
with torch.no_grad():
    want = model(x)
    tuned = autosched.load(sys.argv[1], target="h200", on_miss="serve")
    done = autosched.accelerate(model, tuned, x)
    made = model(x)
found = {
    "close": torch.allclose(made.float(), want.float(), rtol=1e-2, atol=1e-2),
    "served": [[l.name, l.source] for l in done.layers],
    "strides": made.stride() == want.stride(),
    "first": model.first(x).stride() == torch.conv2d(x, model.first.weight, padding=1).stride(),
}
grad = x.float().half().requires_grad_()
model.first(grad).sum().backward()
found["grad"] = grad.grad is not None
print(json.dumps(found))
"""


def test_kernels_serve_layers_in_the_interpreter(
    record: Callable[..., object], tmp_path: Path
) -> None:
    from autosched.te.convolution import BY_NAME
    from autosched.te.operators import matmul
    from measure.log import LogWriter

    conv = BY_NAME["conv2d"](n=2, h=4, w=4, ci=8, co=16, kh=3, kw=3, pad=1, dtype="float16")
    head = matmul(32, 32, 16, dtype="float16", trans_b=True, epilogue=("bias",))
    path = tmp_path / "log.jsonl"
    with LogWriter(path) as writer:
        for work in (conv, head):
            writer.append(record(work))  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-c", SERVE_IN_THE_INTERPRETER, str(path), str(SMALL)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "close": True,
        "served": [["first", "tuned"], ["second", "torch"], ["head", "tuned"]],
        "strides": True,
        "first": True,
        "grad": True,
    }
