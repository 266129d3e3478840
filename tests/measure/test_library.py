"""The library's form is found by structure, and computes the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from autosched.te.layout import stored
from autosched.te.operators import batch_matmul, matmul
from measure import sample_data, verify
from measure.library import library_call, library_forms
from measure.reference import evaluate
from measure.slot import Slots
from measure.tensor import empty
from search_space.expr import Affine, Read
from search_space.workload import Axis, Stage, Tensor, Workload

CPU = torch.device("cpu")


def check(workload: Workload) -> list[str]:
    """Hold every form to the reference and return their names."""
    inputs = sample_data.random_inputs(workload, 0, CPU)
    expected = evaluate(workload, inputs)["C"].float()
    forms = library_forms(workload)
    assert forms
    for form in forms:
        output = empty(workload.output, CPU).fill_(torch.nan)
        form.call(inputs, output)
        torch.testing.assert_close(output.float(), expected, rtol=5e-3, atol=5e-2, msg=form.name)
    return [form.name for form in forms]


@pytest.mark.parametrize(("trans_a", "trans_b"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize("batch", [0, 3])
def test_every_layout(trans_a: bool, trans_b: bool, batch: int) -> None:
    layout = {"dtype": "float16", "trans_a": trans_a, "trans_b": trans_b}
    check(batch_matmul(batch, 5, 7, 9, **layout) if batch else matmul(5, 7, 9, **layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "layout"),
    [
        ("B", {"strides": (0, 9, 1)}),
        ("A", {"strides": (64, 12, 1), "alignment_bytes": 4}),
        ("bias", {"strides": (0,)}),
        ("C", {"strides": (64, 1, 6)}),
    ],
)
def test_operands_may_lie_anyhow_and_data_reach_them(tensor: str, layout: dict[str, Any]) -> None:
    plain = batch_matmul(3, 5, 9, 7, dtype="float32", epilogue=("bias",))
    workload = stored(plain, tensor, **layout)
    check(workload)
    case = verify.random_case(workload, 0, CPU)
    slots = Slots(verify.random_case(workload, 1, CPU).inputs)
    slots.load(case.inputs)
    assert not verify.inputs_changed(case, slots.tensors)
    for one, other in zip(case.inputs, slots.tensors, strict=True):
        assert one.stride() == other.stride()
        assert one.data_ptr() % 16 == other.data_ptr() % 16


@pytest.mark.parametrize(
    "epilogue",
    [
        ("bias",),
        ("residual",),
        ("bias", "relu"),
        ("bias", "gelu"),
        ("bias", "gelu_tanh"),
        ("silu", "scale:0.5", "residual"),
        ("scale:0.125", "bias", "relu"),
        ("scale_a", "scale_b", "bias"),
        ("row_scale", "column_scale", "relu"),
        ("softmax",),
        ("scale:0.125", "bias", "softmax"),
        ("gelu",),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_every_epilogue(epilogue: tuple[str, ...], dtype: str) -> None:
    check(matmul(6, 8, 16, dtype=dtype, epilogue=epilogue))
    check(batch_matmul(2, 6, 8, 16, dtype=dtype, epilogue=epilogue))


@pytest.mark.parametrize(
    ("m", "options", "forms"),
    [
        (6, {}, ["mm"]),
        (6, {"trans_b": True}, ["mm", "linear"]),
        (1, {}, ["mm", "mv"]),
        (6, {"epilogue": ("bias", "relu")}, ["_addmm_activation", "addmm, relu", "mm, add, relu"]),
        (
            6,
            {"epilogue": ("bias", "residual"), "trans_b": True},
            ["addmm, add", "linear, add", "mm, add, add"],
        ),
        (6, {"epilogue": ("scale:0.5",)}, ["addmm(alpha)", "mm, mul"]),
        (
            6,
            {"epilogue": ("softmax",)},
            ["mm(out_dtype=float32), softmax, to float16", "mm, softmax"],
        ),
        (6, {"out_dtype": "float32"}, ["mm(out_dtype=float32)"]),
    ],
)
def test_there_are_several_ways_to_write_one_product(
    m: int, options: dict[str, object], forms: list[str]
) -> None:
    assert check(matmul(m, 8, 16, dtype="float16", **options)) == forms  # type: ignore[arg-type]


def test_8_bit_floats_take_scales_and_bias_along_or_not() -> None:
    names = check(
        matmul(
            16,
            32,
            64,
            dtype="float8_e4m3",
            trans_b=True,
            precision="fast",
            epilogue=("scale_a", "scale_b", "bias", "relu"),
        )
    )
    assert names[0] == "_scaled_mm, relu"
    assert names[-1] == "_scaled_mm, mul, mul, add, relu"


def test_rows_of_scores_are_not_rounded_before_their_softmax() -> None:
    workload = matmul(16, 64, 512, dtype="float16", epilogue=("softmax",))
    case = verify.random_case(workload, 0, CPU)
    errors = []
    for form in library_forms(workload):
        output = empty(workload.output, CPU)
        form.call(case.inputs, output)
        errors.append(float(verify.worst_error(case, output)))
    wide, rounded = errors
    assert wide <= 1.0 < rounded


def test_tf32_leaves_the_setting_as_it_was() -> None:
    check(matmul(6, 8, 16, dtype="float32", precision="tf32"))
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_bias_is_one_call() -> None:
    w = matmul(6, 8, 16, dtype="float16", epilogue=("bias", "relu"))
    call = library_call(w)
    assert call is not None
    inputs, out = sample_data.random_inputs(w, 0, CPU), empty(w.output, CPU)
    with torch.profiler.profile() as trace:
        call(inputs, out)
    names = [event.name for event in trace.events()]
    assert names.count("aten::addmm") == 1
    assert "aten::mm" not in names


def test_what_is_neither_product_nor_plain_has_no_library_call() -> None:
    i, j = Affine.axis("i"), Affine.axis("j")
    axes = (Axis("i", 4, "spatial"), Axis("j", 4, "reduction"))
    x, y = Tensor("X", (8,), "float32"), Tensor("Y", (4,), "float32")
    largest = Workload(axes, (x,), (), y, (Stage("Y", (i,), Read("X", (i + j,)), "max"),))
    assert library_call(largest) is None
    diagonal = Read("X", (i, i))
    square = Tensor("X", (4, 4), "float32")
    assert library_call(Workload(axes, (square,), (), y, (Stage("Y", (i,), diagonal),))) is None
