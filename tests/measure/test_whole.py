"""Reductions and elementwise chains: every form of torch's computes what the reference does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from autosched import te
from measure import sample_data, verify
from measure.library import library_forms
from measure.tensor import empty
from search_space.workload import Workload

CPU = torch.device("cpu")


def norm(dtype: str) -> Workload:
    x = te.placeholder((3, 8, 16), "X", dtype)
    j, k = te.reduce_axis(8, "j"), te.reduce_axis(16, "k")
    acc = te.compute((3,), lambda i: te.sum(x[i, j, k] * x[i, j, k], axis=(j, k)), "acc")
    return te.workload(te.compute((3,), lambda i: te.sqrt(acc[i]), "Y"), dtype=dtype)


def scaled(dtype: str) -> Workload:
    x, s = te.placeholder((8, 16), "X", dtype), te.placeholder((16,), "S", dtype)
    k = te.reduce_axis(16, "k")
    acc = te.compute((8,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "acc")
    y = te.compute((16, 8), lambda j, i: te.silu(x[i, j] * te.rsqrt(acc[i] + 1.0) * s[j]), "Y")
    return te.workload(y, dtype=dtype)


def columns(dtype: str) -> Workload:
    x = te.placeholder((8, 16), "X", dtype)
    k = te.reduce_axis(8, "k")
    return te.workload(te.compute((16,), lambda j: te.max(x[k, j], axis=k), "Y"), dtype=dtype)


def chain(dtype: str) -> Workload:
    x, b = te.placeholder((8, 16), "X", dtype), te.placeholder((8,), "B", dtype)
    y = te.compute((8, 16), lambda i, j: te.gelu(x[i, j] + b[i]) * 0.5, "Y")
    return te.workload(y, dtype=dtype)


def pairs(dtype: str) -> Workload:
    a, b = te.placeholder((5, 16), "A", dtype), te.placeholder((7, 16), "B", dtype)
    k = te.reduce_axis(16, "k")

    def squared(i: Any, j: Any) -> Any:
        apart = a[i, k] - b[j, k]
        return te.sum(apart * apart, axis=k)

    return te.workload(te.compute((5, 7), squared, "Y"), dtype=dtype)


def several(dtype: str) -> Workload:
    a, b = te.placeholder((5, 2, 16), "A", dtype), te.placeholder((16, 7, 2), "B", dtype)
    k, h = te.reduce_axis(16, "k"), te.reduce_axis(2, "h")
    y = te.compute((7, 5), lambda j, i: te.sum(a[i, h, k] * b[k, j, h], axis=(k, h)), "Y")
    return te.workload(y, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (norm, ["vector_norm", "sum"]),
        (scaled, ["vector_norm", "sum"]),
        (columns, ["amax"]),
        (chain, ["elementwise"]),
        (pairs, ["cdist", "cdist(mm)", "sum"]),
        (several, ["einsum"]),
    ],
)
def test_every_form_computes_the_workload(
    make: Callable[[str], Workload], names: list[str], dtype: str
) -> None:
    workload = make(dtype)
    case = verify.random_case(workload, 0, CPU)
    forms = library_forms(workload)
    wide = [f"{name} in float32" for name in names] if dtype == "float16" else []
    assert [form.name for form in forms] == [*names, *wide]
    for form in forms:
        output = empty(workload.output, CPU).fill_(torch.nan)
        made = form.call(case.inputs, output)
        output = output if made is None else made
        expected = case.expected
        exact = dtype == "float32" or "float32" in form.name
        rtol, atol = (2e-3, 1e-4) if exact else (2e-2, 5e-2)
        torch.testing.assert_close(output.float(), expected, rtol=rtol, atol=atol, msg=form.name)


def test_inputs_stay_as_they_were() -> None:
    workload = chain("float32")
    inputs = sample_data.random_inputs(workload, 0, CPU)
    kept = [tensor.clone() for tensor in inputs]
    library_forms(workload)[0].call(inputs, empty(workload.output, CPU))
    assert all(torch.equal(*pair) for pair in zip(inputs, kept, strict=True))
