from __future__ import annotations

import pytest
import torch

from autosched.runtime.errors import BadInput, WrongDtype, WrongShape
from autosched.runtime.matmul import Signature, signature_of, stored, workload_of
from autosched.te.operators import batch_matmul, matmul


def signature(a: torch.Tensor, b: torch.Tensor, **changes: object) -> Signature:
    values: dict[str, object] = {
        "trans_a": False,
        "trans_b": False,
        "extras": {},
        "activation": None,
        "out_dtype": None,
        "precision": None,
    }
    return signature_of(a, b, **(values | changes))  # type: ignore[arg-type]


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.float16)


def test_a_plain_call_is_the_plain_workload() -> None:
    made = workload_of(signature(half(4, 8), half(8, 16)))
    assert made.key == matmul(4, 16, 8, dtype="float16").key


def test_stored_layouts_reach_the_workload() -> None:
    made = workload_of(signature(half(8, 4), half(16, 8), trans_a=True, trans_b=True))
    assert made.key == matmul(4, 16, 8, dtype="float16", trans_a=True, trans_b=True).key


def test_a_transposed_view_is_its_memory_in_the_other_layout() -> None:
    weight = half(16, 8)
    b, trans_b = stored(weight.t(), False)
    assert trans_b is True
    assert b.data_ptr() == weight.data_ptr()
    assert b.shape == weight.shape
    back, plain = stored(weight.t(), True)  # a view of [n, k] stored as [k, n]
    assert plain is False
    assert back.is_contiguous()


def test_epilogues_come_in_the_documented_order() -> None:
    made = signature(
        half(4, 8),
        half(8, 16),
        extras={"bias": half(16), "residual": half(4, 16)},
        activation="gelu",
        out_dtype=torch.float32,
    )
    assert made.epilogue == ("bias", "residual", "gelu")
    assert made.out_dtype == "float32"
    assert [t.name for t in workload_of(made).inputs] == ["A", "B", "bias", "residual"]


def test_constants_reach_the_workload() -> None:
    extras = {"bias": half(16)}
    made = signature(half(4, 8), half(8, 16), extras=extras, constant=("bias", "b"))
    plain = {"dtype": "float16", "epilogue": ("bias",)}
    assert workload_of(made).key == matmul(4, 16, 8, constant=("b", "bias"), **plain).key  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="constant: 'weight' is no input here; there are a, b"):
        signature(half(4, 8), half(8, 16), constant=("weight",))


def test_three_dimensions_are_a_batch() -> None:
    made = signature(half(3, 4, 8), half(3, 8, 16))
    assert made.output_shape == (3, 4, 16)
    assert workload_of(made).key == batch_matmul(3, 4, 16, 8, dtype="float16").key


def test_a_signature_is_built_once() -> None:
    assert workload_of(signature(half(4, 8), half(8, 16))) is workload_of(
        signature(half(4, 8), half(8, 16))
    )


@pytest.mark.parametrize(
    ("a", "b", "changes", "error", "words"),
    [
        (half(4, 8), half(4, 8), {}, WrongShape, "a has k=8 and b has k=4"),
        (half(8), half(8, 4), {}, WrongShape, r"a has shape \(8,\); it must have 2 dimensions"),
        (half(2, 4, 8), half(8, 4), {}, WrongShape, "b has shape .*; it must have 3 dimensions"),
        (half(2, 4, 8), half(3, 8, 4), {}, WrongShape, "a holds 2 matrices and b 3"),
        (half(4, 8), torch.zeros(8, 4), {}, WrongDtype, "b is torch.float32, but a is"),
        (torch.zeros(4, 8, dtype=torch.float64),) * 2
        + ({}, WrongDtype, "a is torch.float64; kernels here take"),
        (
            half(4, 8),
            half(8, 4),
            {"activation": "tanh"},
            BadInput,
            "'tanh' is not known; known: relu",
        ),
        (
            half(4, 8),
            half(8, 4),
            {"precision": "tf64"},
            BadInput,
            "'tf64' is not known; known: ieee",
        ),
        (half(4, 8), half(8, 4), {"out_dtype": "int4"}, WrongDtype, "out_dtype is int4"),
    ],
)
def test_what_does_not_multiply_is_refused(
    a: torch.Tensor, b: torch.Tensor, changes: dict[str, object], error: type, words: str
) -> None:
    with pytest.raises(error, match=words):
        signature(a, b, **changes)
