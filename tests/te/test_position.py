"""Positions: affine or refused."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.te.position import Position
from search_space.expr import Affine

P, Q = te.reduce_axis(4, "i"), te.reduce_axis(5, "j")


@pytest.mark.parametrize(
    ("place", "form"),
    [
        (P + Q, Affine.of({"i": 1, "j": 1})),
        (2 * P - Q * 3 + 1, Affine.of({"i": 2, "j": -3}, 1)),
        (1 - P, Affine.of({"i": -1}, 1)),
        (-(P + 2), Affine.of({"i": -1}, -2)),
        (P - P, Affine(())),
        ((P - P + 3) * Q, Affine.of({"j": 3})),
    ],
)
def test_arithmetic(place: Position, form: Affine) -> None:
    assert place.form == form


@pytest.mark.parametrize(
    ("build", "fact"),
    [
        (lambda: P * Q, "no product of the axes i and j"),
        (lambda: P // 2, "not '//'"),
        (lambda: P % 2, "not '%'"),
        (lambda: P / 2, "not '/'"),
        (lambda: 2 // P, "not '//'"),
        (lambda: P**2, r"not '\*\*'"),
        (lambda: P * 1.5, "a factor is an integer, not '1.5'"),
        (lambda: P + 1.0, "an index is an integer, not '1.0'"),
        (lambda: P + True, "an index is an integer, not 'True'"),
        (lambda: P + (1 << 41), "past the limit of 2\\*\\*40"),
        (lambda: P + te.reduce_axis(9, "i"), "axis name 'i' has two meanings"),
        (lambda: te.reduce_axis(0, "k"), "axis 'k' has extent 0, the least is 1"),
        (lambda: te.reduce_axis(True, "k"), "the extent of axis 'k' is an integer"),
        (lambda: te.reduce_axis(2.0, "k"), "the extent of axis 'k' is an integer"),  # type: ignore[arg-type]
        (lambda: te.reduce_axis(1 << 41, "k"), "past the limit"),
        (lambda: te.reduce_axis(4, "for"), "reserved word"),
    ],
)
def test_refusals(build: Callable[[], object], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        build()
