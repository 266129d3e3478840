"""Sums that are read whole and reduced again: one axis, however it is called where."""

import pytest

from autosched import te
from autosched.te import operators, text

SIZES = {"i": 8, "j": 6, "k": 4}
INPUTS = {"A": text.Stored((8, 4), "float16"), "B": text.Stored((4, 6), "float16")}
SOFTMAX = (
    "acc[i,j] += A[i,k] * B[k,j]; row_max[i] max= acc[i,j]; "
    "row_sum[i] += exp(acc[i,j] - row_max[i]); C[i,j] = exp(acc[i,j] - row_max[i]) / row_sum[i]"
)


def test_an_operator_and_its_text_share_a_key() -> None:
    by_text = text.parse(SOFTMAX, sizes=SIZES, inputs=INPUTS)
    by_name = operators.matmul(8, 6, 4, dtype="float16", epilogue=("softmax",))
    assert by_text.canonical == by_name.canonical
    assert by_text.key == by_name.key


def test_the_reduced_axis_is_the_axis_of_the_sum() -> None:
    workload = operators.matmul(8, 6, 4, dtype="float16", epilogue=("softmax",))
    assert [axis.name for axis in workload.axes] == ["i", "j", "k"]
    assert [stage.reducer for stage in workload.stages] == ["sum", "max", "sum", None]


def test_the_text_form_goes_round() -> None:
    workload = text.parse(SOFTMAX, sizes=SIZES, inputs=INPUTS)
    assert "max=" in text.format(workload)


def test_sums_read_at_axes_of_other_extents_are_refused() -> None:
    a = te.placeholder((8, 4), "A", "float16")
    b = te.placeholder((4, 8), "B", "float16")
    k, r = te.reduce_axis(4, "k"), te.reduce_axis(8, "r")
    acc = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "acc")
    column = te.compute((8,), lambda j: te.sum(acc[r, j], axis=r), "column")
    output = te.compute((8, 8), lambda i, j: acc[i, j] + column[i], "C")
    with pytest.raises(te.IllegalExpression):
        te.workload(output)
