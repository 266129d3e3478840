"""Positions in a tensor: affine forms over axes, written with Python's operators.

Knows nothing of tensors. Whatever is not affine is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from autosched.te.error import IllegalExpression
from autosched.te.name import check_name
from search_space.expr import Affine
from search_space.workload import Axis, AxisKind

#: Extents, strides and elements of one tensor stay at or below this.
LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Position:
    """An affine form with the axes that occur in it; ``+``, ``-`` and ``*`` by integers.

    ``padded`` says that an offset was written, if only ``+ 0``: reads may leave the tensor.
    """

    form: Affine
    axes: tuple[Axis, ...]
    padded: bool = False

    def __add__(self, other: object) -> Position:
        right = position(other)
        padded = self.padded or right.padded or not (self.axes and right.axes)
        axes = merge_axes((self.axes, right.axes))
        return _occurring(self.form + right.form, axes, padded)

    __radd__ = __add__

    def __sub__(self, other: object) -> Position:
        return self + position(other) * -1

    def __rsub__(self, other: object) -> Position:
        return self * -1 + other

    def __neg__(self) -> Position:
        return self * -1

    def __mul__(self, other: object) -> Position:
        if isinstance(other, Position):
            return _product(self, other)
        factor = check_integer(other, "a factor")
        return _occurring(self.form.scale(factor), self.axes, self.padded)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> NoReturn:
        raise _not_affine("//")

    def __mod__(self, other: object) -> NoReturn:
        raise _not_affine("%")

    def __truediv__(self, other: object) -> NoReturn:
        raise _not_affine("/")

    def __pow__(self, other: object) -> NoReturn:
        raise _not_affine("**")

    __rfloordiv__ = __floordiv__
    __rmod__ = __mod__
    __rtruediv__ = __truediv__
    __rpow__ = __pow__


def position(value: object) -> Position:
    """Return ``value`` (a Position or an int) as a Position; IllegalExpression otherwise."""
    if isinstance(value, Position):
        return value
    return Position(Affine((), check_integer(value, "an index")), ())


def new_axis(name: object, extent: object, kind: AxisKind) -> Axis:
    """Return an axis with a plain name and 1 <= extent <= 2**40; raises IllegalExpression."""
    checked = check_name(name, "axis")
    length = check_integer(extent, f"the extent of axis {checked!r}")
    if length < 1:
        raise IllegalExpression(f"axis {checked!r} has extent {extent}, the least is 1")
    return Axis(checked, length, kind)


def reduce_axis(extent: int, name: str) -> Position:
    """Return the axis ``0 <= name < extent`` over which ``sum`` and ``max`` reduce."""
    return axis_position(new_axis(name, extent, "reduction"))


def axis(extent: int, name: str) -> Position:
    """Return the axis ``0 <= name < extent`` for the positions of ``scatter`` and ``place``."""
    return axis_position(new_axis(name, extent, "spatial"))


def axis_position(axis: Axis) -> Position:
    """Return the position that is one axis."""
    return Position(Affine.axis(axis.name), (axis,))


def merge_axes(groups: Iterable[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """Join axes by name; raises IllegalExpression where one name has two meanings."""
    merged: dict[str, Axis] = {}
    for axis in (axis for group in groups for axis in group):
        known = merged.setdefault(axis.name, axis)
        if known != axis:
            raise IllegalExpression(
                f"axis name {axis.name!r} has two meanings: a {known.kind} axis of extent "
                f"{known.extent} and a {axis.kind} axis of extent {axis.extent}"
            )
    return tuple(merged.values())


def check_integer(value: object, thing: str) -> int:
    """Return ``value`` if it is an int (no bool) within +-2**40; raises IllegalExpression."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise IllegalExpression(f"{thing} is an integer, not {str(value)[:40]!r}")
    if abs(value) > LARGEST:
        raise IllegalExpression(f"{thing} is {str(value)[:40]}, past the limit of 2**40")
    return value


def _occurring(form: Affine, axes: tuple[Axis, ...], padded: bool) -> Position:
    return Position(form, tuple(axis for axis in axes if axis.name in form.axes), padded)


def _product(left: Position, right: Position) -> Position:
    for one, other in ((left, right), (right, left)):
        if not one.axes:
            return other * one.form.constant
    names = f"{', '.join(left.form.axes)} and {', '.join(right.form.axes)}"
    raise IllegalExpression(f"an index is affine: no product of the axes {names}")


def _not_affine(operator: str) -> IllegalExpression:
    return IllegalExpression(f"an index is affine: + - * by integers, not {operator!r}")
