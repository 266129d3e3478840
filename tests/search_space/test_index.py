"""Index arithmetic against brute force over every point."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_space.expr import Affine
from search_space.index import (
    Index,
    Quotient,
    Remainder,
    Var,
    axes_of,
    from_affine,
    interval,
    quotient,
    remainder,
    substitute,
    variable,
)

EXTENTS = {"a": 3, "b": 4, "c": 5}


def value(index: Index, point: dict[str, int]) -> int:
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Var):
            total += coefficient * point[atom.name]
        elif isinstance(atom, Quotient):
            total += coefficient * (value(atom.value, point) // atom.divisor)
        else:
            total += coefficient * (value(atom.value, point) % atom.divisor)
    return total


def points():
    for values in itertools.product(*(range(extent) for extent in EXTENTS.values())):
        yield dict(zip(EXTENTS, values, strict=True))


linear = st.builds(
    lambda coefficients, constant: from_affine(
        Affine.of(dict(zip(EXTENTS, coefficients, strict=True)), constant)
    ),
    st.tuples(*(st.integers(-8, 8) for _ in EXTENTS)),
    st.integers(-20, 20),
)


@given(linear, st.integers(1, 12))
def test_quotient_and_remainder_mean_what_they_say(index: Index, divisor: int) -> None:
    whole, rest = quotient(index, divisor, EXTENTS), remainder(index, divisor, EXTENTS)
    for point in points():
        assert value(whole, point) == value(index, point) // divisor
        assert value(rest, point) == value(index, point) % divisor


@given(linear, st.integers(1, 12))
def test_interval_holds_every_value(index: Index, divisor: int) -> None:
    for form in (index, quotient(index, divisor, EXTENTS), remainder(index, divisor, EXTENTS)):
        low, high = interval(form, EXTENTS)
        values = [value(form, point) for point in points()]
        assert low <= min(values)
        assert max(values) <= high


def test_interval_of_a_linear_form_is_exact() -> None:
    index = from_affine(Affine.of({"a": 2, "b": -3}, 1))
    assert interval(index, EXTENTS) == (1 - 9, 1 + 4)


def test_quotient_pulls_out_what_divides() -> None:
    index = variable("a").scale(4) + variable("b")
    assert quotient(index, 4, EXTENTS) == variable("a")
    assert remainder(index, 4, EXTENTS) == variable("b")


def test_a_fused_axis_splits_again_without_division() -> None:
    fused = variable("outer").scale(4) + variable("inner")
    extents = {"outer": 3, "inner": 4}
    definitions = {"f": fused}
    a = Index(((Quotient(variable("f"), 4), 1),))
    b = Index(((Remainder(variable("f"), 4), 1),))
    assert substitute(a, definitions, {**extents, "f": 12}) == variable("outer")
    assert substitute(b, definitions, {**extents, "f": 12}) == variable("inner")


def test_sums_drop_what_cancels() -> None:
    assert variable("a") + variable("a").scale(-1) == Index()
    assert variable("a").scale(0) == Index()


def test_axes_are_found_within_quotients() -> None:
    index = quotient(variable("a") + variable("b"), 2, EXTENTS)
    assert sorted(axes_of(index)) == ["a", "b"]


@pytest.mark.parametrize("divisor", [1, 2, 7])
def test_negative_values_round_down(divisor: int) -> None:
    index = from_affine(Affine.of({"a": 1}, -5))
    for point in points():
        assert value(quotient(index, divisor, EXTENTS), point) == (point["a"] - 5) // divisor
