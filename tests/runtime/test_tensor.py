from __future__ import annotations

import pytest
import torch

from autosched.runtime.errors import NeedsGradient, WrongDevice, WrongDtype, WrongLayout, WrongShape
from autosched.runtime.tensor import (
    bind_input,
    check_device,
    check_gradient,
    check_output,
    dtype_name,
    is_column_major,
)
from search_space.workload import Tensor

WISH = Tensor("A", (4, 8), "float32")


def test_a_tensor_that_lies_right_is_bound_as_it_is() -> None:
    tensor = torch.zeros(4, 8)
    bound = bind_input("a", tensor, WISH)
    assert bound.tensor is tensor
    assert bound.copied_bytes == 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(64.0).reshape(4, 16)[:, :8],  # padded rows
        torch.arange(64.0).reshape(8, 8)[::2],  # every other row
        torch.arange(4.0).reshape(4, 1).expand(4, 8),  # stride 0
        torch.arange(32.0).reshape(8, 4).t(),  # column-major
        torch.arange(33.0)[1:].reshape(4, 8),  # an address 4 bytes off
        torch.arange(32.0).reshape(4, 8).flip(0),
    ],
)
def test_any_other_layout_is_copied_with_its_values(tensor: torch.Tensor) -> None:
    bound = bind_input("a", tensor, WISH)
    assert bound.tensor.stride() == (8, 1) or tensor.is_contiguous()
    assert bound.tensor.data_ptr() % 16 == 0
    assert torch.equal(bound.tensor, tensor)
    if tensor.data_ptr() % 16 or not tensor.is_contiguous():
        assert bound.copied_bytes == 4 * 8 * 4


def test_strides_of_extent_1_never_count() -> None:
    tensor = torch.zeros(1, 64)[:, :8]
    assert bind_input("a", tensor, Tensor("A", (1, 8), "float32")).copied_bytes == 0


def test_a_wrong_shape_or_dtype_is_named() -> None:
    with pytest.raises(WrongShape, match=r"a has shape \(4, 4\); it must be \(4, 8\)"):
        bind_input("a", torch.zeros(4, 4), WISH)
    with pytest.raises(WrongDtype, match=r"a is torch.float16; it must be float32"):
        bind_input("a", torch.zeros(4, 8, dtype=torch.float16), WISH)


def test_dtypes_have_one_name() -> None:
    known = ("float16", "bfloat16")
    assert dtype_name("out_dtype", torch.bfloat16, known) == "bfloat16"
    assert dtype_name("out_dtype", "float16", known) == "float16"
    for dtype in (torch.float64, torch.complex64, "float64"):
        with pytest.raises(WrongDtype, match=r"a is .*; kernels here take float16, bfloat16"):
            dtype_name("a", dtype, known)


def test_a_tensor_on_the_cpu_is_refused_with_the_way_out() -> None:
    with pytest.raises(WrongDevice, match=r"a is on cpu; served kernels need a GPU: move it"):
        check_device({"a": torch.zeros(1)})
    with pytest.raises(WrongDtype, match="b is a list, not a torch tensor"):
        check_device({"b": [1.0]})  # type: ignore[dict-item]


def test_autograd_is_refused_unless_it_is_off() -> None:
    weight = torch.zeros(2, requires_grad=True)
    with pytest.raises(NeedsGradient, match=r"b requires grad.*no_grad"):
        check_gradient({"b": weight})
    with torch.no_grad():
        check_gradient({"b": weight})


def test_column_major_is_told_from_other_strides() -> None:
    assert is_column_major(torch.zeros(8, 4).t())
    assert is_column_major(torch.zeros(3, 8, 4).transpose(1, 2))
    assert not is_column_major(torch.zeros(4, 8))
    assert not is_column_major(torch.zeros(8, 8)[:, :4].t())
    assert not is_column_major(torch.zeros(8, 1).t())  # both at once: row-major it is


def test_an_output_must_lie_right_and_apart() -> None:
    cpu = torch.device("cpu")
    check_output(torch.zeros(4, 8), WISH, cpu, {"a": torch.zeros(8)})
    with pytest.raises(WrongLayout, match=r"out has strides \(1, 4\)"):
        check_output(torch.zeros(8, 4).t(), WISH, cpu, {})
    whole = torch.zeros(48)
    with pytest.raises(WrongLayout, match="out shares memory with a"):
        check_output(whole[16:].reshape(4, 8), WISH, cpu, {"a": whole[:17]})
    check_output(whole[16:].reshape(4, 8), WISH, cpu, {"a": whole[:16]})
