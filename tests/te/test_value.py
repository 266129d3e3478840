"""Values: trees by operators and functions, dtypes that meet, bounds."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.te.value import Value
from search_space.expr import Call, Cast, Const, Read

A = te.placeholder((), "A", "float16")[()]
D = te.placeholder((), "D", "float64")[()]
N = te.placeholder((), "N", "int8")[()]
a, n = A.expr, N.expr


@pytest.mark.parametrize(
    ("value", "expr"),
    [
        (A + 1, Call("add", (a, Const(1.0)))),
        (1 - A, Call("sub", (Const(1.0), a))),
        (-A * 2.5, Call("mul", (Call("neg", (a,)), Const(2.5)))),
        (1 / A, Call("div", (Const(1.0), a))),
        (te.maximum(A, 0), Call("max", (a, Const(0.0)))),
        (te.relu(A), Call("max", (a, Const(0.0)))),
        (te.silu(A), Call("mul", (a, Call("sigmoid", (a,))))),
        (te.cast(A, "float32"), Cast("float32", a)),
        (te.abs(N) + 2, Call("add", (Call("abs", (n,)), Const(2.0)))),
    ],
)
def test_trees(value: Value, expr: object) -> None:
    assert value.expr == expr


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(A, "float32"), (A + D, "float64"), (N * 3, "int32"), (te.cast(N, "float16") * A, "float32")],
)
def test_values_are_computed_in_the_accumulators_dtype(value: Value, dtype: str) -> None:
    assert value.dtype == dtype


@pytest.mark.parametrize(
    ("build", "fact"),
    [
        (lambda: A + N, "int32 and float32 do not mix|float32 and int32 do not mix"),
        (lambda: N * 0.5, "do not mix"),
        (lambda: te.exp(N), "exp of int32 is not defined; cast to float32 first"),
        (lambda: N / 2, "div of int32"),
        (lambda: te.cast(A, "int8"), "a float is not cast to int8"),
        (lambda: te.cast(A, "float61"), "dtype 'float61' is unknown; known: float16"),
        (lambda: A + float("nan"), "a constant is a finite number, not nan"),
        (lambda: A + 10**400, "a constant is a finite number"),
        (lambda: A + "1", "a value is a read, a number or a function"),
        (lambda: A + True, "a value is a read, a number or a function"),
        (lambda: A * te.reduce_axis(4, "k"), "axis 'k' is used as a value"),
        (lambda: bool(A), "a value has no truth"),
        (lambda: A + te.placeholder((), "A", "float16")[()], "two tensors are called 'A'"),
    ],
)
def test_refusals(build: Callable[[], object], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        build()


def test_trees_that_outgrow_the_bounds_are_refused() -> None:
    with pytest.raises(te.IllegalExpression, match="at most 10000 nodes, 100 deep"):
        _nest(lambda x: x + 1, 200)
    with pytest.raises(te.IllegalExpression, match="at most 10000 nodes, 100 deep"):
        _nest(te.gelu_tanh, 20)


def _nest(function: Callable[[Value], Value], times: int) -> Value:
    value = A
    for _ in range(times):
        value = function(value)
    return value


def test_numbers_have_no_negative_zero() -> None:
    assert repr((A + -0.0).expr) == repr(Call("add", (Read("A", ()), Const(0.0))))
