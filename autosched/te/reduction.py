"""Reductions of values over axes. Knows nothing of the tensors that hold their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from autosched.te.error import IllegalExpression
from autosched.te.position import Position
from autosched.te.value import Value, value
from search_space.workload import Axis, Reducer


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """``value`` summed, or its greatest, over ``axes``: the whole body of one compute."""

    reducer: Reducer
    value: Value
    axes: tuple[Axis, ...]

    def _alone(self, *_: object) -> NoReturn:
        raise IllegalExpression(
            f"te.{self.reducer} is the whole body of a compute; apply functions to its result in "
            "another one"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _alone
    __truediv__ = __rtruediv__ = __neg__ = _alone


def sum(operand: Value, axis: Position | Sequence[Position]) -> Reduction:
    """Sum over one or more reduce axes, in the accumulator's dtype; a read out of range is 0."""
    return reduction("sum", operand, axis)


def max(operand: Value, axis: Position | Sequence[Position]) -> Reduction:
    """Take the greatest over one or more reduce axes; a read out of range is the least number."""
    return reduction("max", operand, axis)


def reduction(reducer: Reducer, operand: object, axis: Position | Sequence[Position]) -> Reduction:
    """Reduce ``operand`` over axes that occur in it; raises IllegalExpression."""
    inner = value(operand)
    axes = tuple(_axis(p) for p in ([axis] if isinstance(axis, Position) else axis))
    if not axes:
        raise IllegalExpression(f"te.{reducer} needs an axis to reduce over")
    for one in axes:
        if one not in inner.axes:
            raise IllegalExpression(f"axis {one.name!r} is reduced but does not occur in the value")
    if len(set(axes)) != len(axes):
        raise IllegalExpression(f"te.{reducer} names an axis twice")
    return Reduction(reducer, inner, axes)


def _axis(place: Position) -> Axis:
    single = place.form.single
    if single is None or place.axes[0].kind != "reduction":
        raise IllegalExpression("axis= takes what te.reduce_axis returned")
    return place.axes[0]
