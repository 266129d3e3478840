"""On a GPU: one binary serves odd numbers of rows, reads and writes nothing beyond them."""

from __future__ import annotations

import random

import pytest
import torch

from autosched.codegen.render import render
from autosched.runtime.engine import KernelEngine
from autosched.runtime.packs import Packs
from autosched.te.operators import matmul
from measure import compiler, launch
from measure.launch import Launcher
from search_space.extent import narrowed
from search_space.rules import sketches
from search_space.sample import random_choices
from search_space.sketch import fill
from search_space.target import Target
from search_space.workload import Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]
DEVICE = torch.device("cuda", 0)
END = 384


def rows(m: int) -> Workload:
    return matmul(m, 512, 512, dtype="float16", trans_b=True, epilogue=("bias", "relu"))


@pytest.mark.parametrize("name", ["contraction.descriptor", "contraction.descriptor.persistent"])
def test_rows_of_a_bucket(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = rows(END)
    sketch = next(s for s in sketches(wide, target) if s.name == name)
    rng = random.Random(0)
    for _ in range(50):
        choices = random_choices(sketch, target, rng)
        assert choices is not None
        program = render(wide, fill(sketch, choices), target)
        try:
            held = KernelEngine(Launcher(program, DEVICE), Packs())
        except Exception:  # noqa: BLE001  a schedule that does not fit: the next one
            continue
        break
    compiled = []
    compile_kernel = compiler.compile_kernel
    monkeypatch.setattr(
        launch.compiler,
        "compile_kernel",
        lambda *given: compiled.append(given) or compile_kernel(*given),
    )
    b = torch.randn(512, 512, device=DEVICE).half()
    bias = torch.randn(512, device=DEVICE).half()
    for m in (1, 321, 333, 383, END):
        made = narrowed(program, wide, "i", rows(m))
        engine = KernelEngine(Launcher(made, DEVICE), Packs())
        whole = torch.full((END, 512), torch.nan, device=DEVICE).half()
        whole[:m] = torch.randn(m, 512, device=DEVICE)
        out = torch.full((END, 512), 7.0, device=DEVICE).half()
        engine.run([whole[:m], b, bias], out[:m])
        want = torch.relu(whole[:m].double() @ b.double().t() + bias.double())
        assert torch.allclose(out[:m].double(), want, rtol=2e-3, atol=0.1)
        assert bool((out[m:] == 7).all())
    assert not compiled
    assert held is not None
