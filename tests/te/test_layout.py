"""Strides and alignment: legal ones make another key, others are refused."""

import pytest

from autosched import te
from autosched.te import operators

WORK = operators.matmul(8, 6, 4, dtype="float16")


def test_a_padded_input_is_another_workload() -> None:
    padded = te.stored(WORK, "A", strides=(16, 1), alignment_bytes=8)
    assert padded.tensors["A"].strides == (16, 1)
    assert padded.tensors["A"].alignment_bytes == 8
    assert padded.key != WORK.key
    assert te.stored(padded, "A", strides=(4, 1), alignment_bytes=16).key == WORK.key


def test_an_input_may_repeat_an_element() -> None:
    assert te.stored(WORK, "B", strides=(0, 1)).tensors["B"].strides == (0, 1)


def test_an_output_may_be_transposed() -> None:
    assert te.stored(WORK, "C", strides=(1, 8)).output.strides == (1, 8)


@pytest.mark.parametrize(
    ("tensor", "how", "fact"),
    [
        ("A", {"strides": (4,)}, r"'A' has 2 dimension\(s\) but 1 stride\(s\)"),
        ("A", {"strides": (-4, 1)}, "'A' has stride -4, the least is 0"),
        ("A", {"strides": (4.0, 1)}, "a stride of 'A' is an integer"),
        ("A", {"strides": (1 << 39, 1)}, "elements far, the limit is 2\\*\\*40"),
        ("C", {"strides": (0, 1)}, "make indices share an element"),
        ("C", {"strides": (5, 1)}, "make indices share an element"),
        ("A", {"alignment_bytes": 24}, "'A' is aligned to 24 bytes"),
        ("A", {"alignment_bytes": 1}, "a power of two from 2 to 256"),
        ("A", {"alignment_bytes": 512}, "'A' is aligned to 512 bytes"),
        ("acc", {"strides": (6, 1)}, "there is no stored tensor 'acc'"),
    ],
)
def test_illegal_layouts(tensor: str, how: dict[str, object], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        te.stored(WORK, tensor, **how)  # type: ignore[arg-type]
