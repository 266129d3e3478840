from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from autosched import te
from autosched.bench.inductor import NoPlainForm, plain_forms, use_all_cores
from autosched.spec import load
from autosched.te.operators import batch_matmul, matmul
from measure import verify
from measure.contest import LIBRARY_TOLERANCES
from search_space.expr import Affine, Read
from search_space.workload import Axis, Stage, Tensor, Workload

CPU = torch.device("cpu")
ATTENTION = (
    "S[b,h,i,j] += Q[b,i,h,d] * K[b,j,h,d]; most[b,h,i] max= S[b,h,i,j]; "
    "total[b,h,i] += exp(S[b,h,i,j] - most[b,h,i]); "
    "P[b,h,i,j] = exp(S[b,h,i,j] - most[b,h,i]) / total[b,h,i]"
)
FLOAT8 = [
    matmul(16, 32, 64, dtype="float8_e4m3", trans_b=True, precision="fast", epilogue=epilogue)
    for epilogue in ((), ("scale_a", "scale_b"), ("scale_a", "scale_b", "bias", "relu"))
]


@pytest.mark.parametrize(
    "workload",
    [
        matmul(17, 33, 15, dtype="float32"),
        matmul(17, 33, 15, dtype="float32", trans_a=True, trans_b=True),
        matmul(16, 8, 32, dtype="float32", epilogue=("bias", "gelu")),
        matmul(16, 8, 32, dtype="float32", epilogue=("residual", "relu", "scale:0.5")),
        matmul(16, 8, 32, dtype="float32", epilogue=("bias", "gelu_tanh", "silu")),
        matmul(16, 8, 32, dtype="float32", epilogue=("scale:0.5", "bias", "softmax")),
        batch_matmul(3, 5, 7, 9, dtype="float32", trans_b=True, epilogue=("bias",)),
    ],
    ids=lambda workload: workload.label,
)
def test_the_plain_form_computes_the_workload(workload: Workload) -> None:
    case = verify.random_case(workload, 1, CPU)
    [form] = plain_forms(workload, CPU)
    output = form.function(*case.inputs)
    assert output.dtype == torch.float32
    assert float(verify.worst_error(case, output)) <= 1.0


@pytest.mark.parametrize("workload", FLOAT8, ids=lambda workload: workload.label)
def test_8_bit_floats_are_scaled_in_the_call_or_behind_it(workload: Workload) -> None:
    case = verify.random_case(workload, 1, CPU)
    in_the_call, behind = plain_forms(workload, CPU)
    assert in_the_call.name.startswith("_scaled_mm")
    for form in (in_the_call, behind):
        # What is traced is what is compiled: one graph, no break.
        traced = torch.compile(form.function, backend="aot_eager", fullgraph=True, dynamic=False)
        output = traced(*case.inputs)
        assert output.dtype == torch.bfloat16
        assert float(verify.worst_error(case, output)) <= LIBRARY_TOLERANCES
    assert float(verify.worst_error(case, output)) <= 1.0


def attention(path: Path) -> Workload:
    inputs = "Q: {shape: [2, 16, 3, 32], dtype: float16}, K: {shape: [2, 8, 3, 32], dtype: float16}"
    path.write_text(
        f"workload:\n  expr: >-\n    {ATTENTION}\n  sizes: {{b: 2, h: 3, i: 16, j: 8, d: 32}}\n"
        f"  inputs: {{{inputs}}}\n  output: {{dtype: float16}}\n"
    )
    return load(str(path))[0].workload


def test_scores_of_a_softmax_are_float32_where_torch_can(tmp_path: Path) -> None:
    workload = attention(tmp_path / "attention.yaml")
    case = verify.random_case(workload, 1, CPU)
    first, halves, exact = plain_forms(workload, CPU)
    assert first.name == "bmm(out_dtype=float32), softmax"
    with pytest.raises(NotImplementedError, match="bmm"):
        first.function(*case.inputs)  # no CPU has it: the next form is tried
    assert halves.function(*case.inputs).dtype == torch.float16
    assert float(verify.worst_error(case, exact.function(*case.inputs))) <= 1.0


def test_what_is_neither_product_nor_plain_is_refused() -> None:
    i, j = Affine.axis("i"), Affine.axis("j")
    axes = (Axis("i", 4, "spatial"), Axis("j", 4, "reduction"))
    x, y = Tensor("X", (8,), "float32"), Tensor("Y", (4,), "float32")
    windows = Workload(axes, (x,), (), y, (Stage("Y", (i,), Read("X", (i + j,)), "sum"),))
    with pytest.raises(NoPlainForm, match="no sum of products"):
        plain_forms(windows, CPU)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_plain_stages_are_one_graph(dtype: str) -> None:
    x, b = te.placeholder((6, 40), "X", dtype), te.placeholder((6,), "B", dtype)
    k = te.reduce_axis(40, "k")
    acc = te.compute((6,), lambda i: te.sum(te.maximum(x[i, k], 0.0), axis=k), "acc")
    workload = te.workload(te.compute((6,), lambda i: te.sqrt(acc[i]) + b[i], "Y"), dtype=dtype)
    case = verify.random_case(workload, 1, CPU)
    [form] = plain_forms(workload, CPU)
    traced = torch.compile(form.function, backend="aot_eager", fullgraph=True, dynamic=False)
    assert float(verify.worst_error(case, traced(*case.inputs))) <= 1.0


def test_the_compiler_gets_every_core_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config, "compile_threads", 1)
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    use_all_cores()
    assert config.compile_threads == 1
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS")
    use_all_cores()
    assert config.compile_threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("last", [False, True])
def test_a_convolution_is_compiled_as_stored_and_in_the_other_format(last: bool) -> None:
    size = {"n": 2, "h": 6, "w": 7, "c": 4}
    order = "nhwc" if last else "nchw"
    x = te.placeholder([size[a] for a in order], "X", "float32")
    weights = te.placeholder((5, 3, 3, 4) if last else (5, 4, 3, 3), "W", "float32")
    b = te.placeholder((5,), "B", "float32")
    r, s, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "s"), te.reduce_axis(4, "c")

    def read(n: Any, y: Any, z: Any, o: Any) -> Any:
        at = {"n": n, "h": y + r - 1, "w": 2 * z + s - 1, "c": c}
        taps = weights[o, r, s, c] if last else weights[o, c, r, s]
        return te.sum(x[tuple(at[a] for a in order)] * taps, axis=(r, s, c))

    if last:
        acc = te.compute((2, 6, 4, 5), lambda n, y, z, o: read(n, y, z, o), "acc")
        out = te.compute((2, 6, 4, 5), lambda n, y, z, o: te.relu(acc[n, y, z, o] + b[o]), "Y")
    else:
        acc = te.compute((2, 5, 6, 4), lambda n, o, y, z: read(n, y, z, o), "acc")
        out = te.compute((2, 5, 6, 4), lambda n, o, y, z: te.relu(acc[n, o, y, z] + b[o]), "Y")
    workload = te.workload(out)
    case = verify.random_case(workload, 1, CPU)
    forms = plain_forms(workload, CPU)
    other = "first" if last else "last"
    names = ["conv2d(bias), relu", f"conv2d(bias), in channels_{other}, relu"]
    assert [form.name for form in forms] == names
    for form in forms:
        traced = torch.compile(form.function, backend="aot_eager", fullgraph=True, dynamic=False)
        output = traced(*case.inputs)
        assert output.stride() == workload.output.strides
        assert float(verify.worst_error(case, output)) <= 1.0
