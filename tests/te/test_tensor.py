"""Placeholders and computed tensors: which reads and bodies are legal."""

from collections.abc import Callable

import pytest

from autosched import te

X = te.placeholder((8, 6), "X", "float16")
R, S = te.reduce_axis(6, "r"), te.reduce_axis(3, "s")


def test_axes_carry_the_names_of_the_parameters() -> None:
    t = te.compute((8, 6), lambda row, column: X[row, column] * 2, "T")
    assert [(axis.name, axis.extent) for axis in t.axes] == [("row", 8), ("column", 6)]
    assert te.compute((8, 6), lambda *at: X[at] * 2, "T").axes[1].name == "i1"


def test_reads_out_of_range_mean_padding_where_there_is_an_offset() -> None:
    t = te.compute((8,), lambda i: te.sum(X[i + S - 1, 0], axis=S), "T")
    assert t.shape == (8,)
    assert t.reducer == "sum"


@pytest.mark.parametrize(
    ("build", "fact"),
    [
        (lambda: X[R], r"'X' has 2 dimension\(s\), but 1 index\(es\) are given"),
        (lambda: X[0, 0, 0], r"3 index\(es\) are given"),
        (lambda: X[R, 0], "axis 'r' has extent 6, but dimension 0 of 'X' has 8"),
        (lambda: X[8, 0], "every read, from 8 to 8, lies outside"),
        (lambda: X[0, R + 6], "every read, from 6 to 11, lies outside"),
        (lambda: X[0, 2 * R], "is read from 0 to 10; padding is said by an offset"),
        (lambda: X[0, 1.0], "an index is an integer"),
        (lambda: te.placeholder((0,), "Y", "float16"), "'Y' has extent 0, the least is 1"),
        (lambda: te.placeholder((True,), "Y", "float16"), "an extent of 'Y' is an integer"),
        (lambda: te.placeholder((1 << 21, 1 << 21), "Y", "int8"), "the limit is 2\\*\\*40"),
        (lambda: te.placeholder((4,), "Y", "half"), "dtype 'half' is unknown"),
        (lambda: te.placeholder((4,), "range", "float16"), "reserved word"),
        (lambda: te.placeholder((1,) * 9, "Y", "int8"), "has 9 dimensions, the limit is 8"),
    ],
)
def test_illegal_reads_and_placeholders(build: Callable[[], object], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        build()


@pytest.mark.parametrize(
    ("build", "fact"),
    [
        (lambda i, j: X[i, j] + te.sum(X[i, R], axis=R), "not a Reduction"),
        (lambda i, j: te.sum(X[i, R], axis=R) * 2, "te.sum is the whole body"),
        (lambda i, j: X[i, R], "'T' does not reduce over axis 'r'"),
        (lambda i, j: te.sum(X[i, j], axis=R), "axis 'r' is reduced but does not occur"),
        (lambda i, j: te.sum(X[i, j], axis=[]), "te.sum needs an axis"),
        (lambda i, j: te.max(X[i, R], axis=[R, R]), "te.max names an axis twice"),
        (lambda i, j: te.sum(X[i, R], axis=R + 1), "axis= takes what te.reduce_axis returned"),
        (lambda i, j: te.sum(X[i, j], axis=j), "axis= takes what te.reduce_axis returned"),
        (lambda i, j: X[i - 1, j], "without a reduction nothing says what lies outside"),
        (lambda i, j: "text", "a value is a read"),
        (lambda i: X[i, 0], "'T' has 2 dimensions, but its function takes 1 positions"),
        (lambda i, for_: i, "used as a value"),
    ],
)
def test_illegal_bodies(build: Callable[..., object], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        te.compute((8, 6), build, "T")  # type: ignore[arg-type]


def test_computed_tensors_are_never_read_out_of_range() -> None:
    t = te.compute((8, 6), lambda i, j: X[i, j] * 2, "T")
    with pytest.raises(te.IllegalExpression, match="'T' is computed: it is read from 6 to 8"):
        te.compute((8, 6), lambda i, j: te.sum(t[i, j] * t[S + 6, j], axis=S), "U")


def test_a_tensor_does_not_define_itself() -> None:
    with pytest.raises(te.IllegalExpression, match="'X' is both read and defined"):
        te.compute((8, 6), lambda i, j: X[i, j] + 1, "X")
