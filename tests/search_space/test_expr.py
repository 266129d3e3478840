"""Affine forms, trees and the functions that are written out in others."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_space.expr import (
    DERIVED,
    FUNCTIONS,
    Affine,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    derived,
    reads,
    rewrite,
    walk,
)

EXTENTS = {"i": 3, "j": 4, "k": 5}
FORMS = st.builds(
    Affine.of,
    st.dictionaries(st.sampled_from(sorted(EXTENTS)), st.integers(-4, 4)),
    st.integers(-9, 9),
)
A = Read("A", (Affine.axis("i"),))
B = Read("B", (Affine.axis("j"),))


def at(form: Affine, point: dict[str, int]) -> int:
    return form.constant + sum(c * point[name] for name, c in form.terms)


def points() -> list[dict[str, int]]:
    return [{"i": i, "j": j, "k": k} for i in range(3) for j in range(4) for k in range(5)]


@given(FORMS, FORMS, st.integers(-3, 3))
def test_affine_arithmetic_is_that_of_its_values(a: Affine, b: Affine, factor: int) -> None:
    for point in points():
        assert at(a + b, point) == at(a, point) + at(b, point)
        assert at(a - b, point) == at(a, point) - at(b, point)
        assert at(a.scale(factor), point) == factor * at(a, point)


@given(FORMS)
def test_bounds_are_the_least_and_the_greatest_value(form: Affine) -> None:
    values = [at(form, point) for point in points()]
    assert form.bounds(EXTENTS) == (min(values), max(values))


@given(FORMS, FORMS, FORMS)
def test_substitution_replaces_all_axes_at_once(form: Affine, i: Affine, j: Affine) -> None:
    replaced = form.substitute({"i": i, "j": j})
    for point in points():
        moved = {"i": at(i, point), "j": at(j, point), "k": point["k"]}
        assert at(replaced, point) == at(form, moved)


def test_equal_forms_compare_equal() -> None:
    assert Affine.of({"j": 2, "i": 1, "k": 0}) == Affine.axis("i") + Affine.axis("j").scale(2)
    assert Affine.axis("i") - Affine.axis("i") == Affine(())


@pytest.mark.parametrize(
    ("form", "single"),
    [
        (Affine.axis("i"), "i"),
        (Affine.of({"i": 2}), None),
        (Affine.of({"i": 1}, 1), None),
        (Affine.of({"i": 1, "j": 1}), None),
        (Affine((), 0), None),
    ],
)
def test_single_is_one_axis_and_nothing_else(form: Affine, single: str | None) -> None:
    assert form.single == single


def test_walk_goes_from_operands_to_what_uses_them() -> None:
    inner = Call("add", (A, Const(1.0)))
    tree = Call("mul", (Cast("float16", inner), B))
    assert list(walk(tree)) == [A, Const(1.0), inner, Cast("float16", inner), B, tree]
    assert reads(Call("add", (tree, A))) == (A, B)


def test_rewrite_rebuilds_from_below() -> None:
    tree = Call("add", (A, Cast("float16", A)))
    assert rewrite(tree, lambda node: B if node == A else node) == Call(
        "add", (B, Cast("float16", B))
    )


def evaluate(expr: Expr, x: float) -> float:
    if isinstance(expr, Const):
        return float(expr.value)
    if isinstance(expr, Read):
        return x
    assert isinstance(expr, Call)
    args = [evaluate(arg, x) for arg in expr.args]
    known = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "max": max,
        "erf": math.erf,
        "tanh": math.tanh,
        "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    }
    return float(known[expr.function](*args))


@pytest.mark.parametrize("x", [-3.0, -0.5, 0.0, 0.1, 2.0])
def test_derived_functions_have_their_values(x: float) -> None:
    gelu = x * 0.5 * math.erfc(-x / math.sqrt(2))
    wanted = {"relu": max(x, 0.0), "gelu": gelu, "silu": x / (1 + math.exp(-x))}
    for name, value in wanted.items():
        assert evaluate(DERIVED[name](A), x) == pytest.approx(value, abs=1e-12)
    assert evaluate(DERIVED["gelu_tanh"](A), x) == pytest.approx(gelu, abs=1e-3)


@pytest.mark.parametrize("name", list(DERIVED))
def test_derived_functions_are_found_again(name: str) -> None:
    argument = Call("add", (A, B))
    tree = DERIVED[name](argument)
    assert derived(tree) == (name, argument)
    assert all(not isinstance(node, Call) or node.function in FUNCTIONS for node in walk(tree))


def test_what_only_resembles_a_derived_function_is_not_one() -> None:
    assert derived(Call("mul", (A, Call("sigmoid", (B,))))) is None
    assert derived(Call("max", (A, Const(1.0)))) is None
    assert derived(A) is None
