"""Scalar values: expression trees over reads, with what they read and which axes they hold.

Knows nothing of stages or workloads. Values are computed in the accumulator's dtype of what they
read; only ``cast`` rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from autosched.te.error import IllegalExpression
from autosched.te.position import Position, merge_axes
from search_space.dtype import DTYPES, accumulator
from search_space.expr import FUNCTIONS, Call, Cast, Const, Expr
from search_space.workload import Axis

if TYPE_CHECKING:
    from autosched.te.tensor import Source

#: Trees past these bounds are refused: they would outgrow the interpreter's stack or patience.
MOST_NODES = 10_000
DEEPEST = 100
#: Functions without a meaning on integers.
_FLOAT_ONLY = frozenset(
    ("div", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid"),
)


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One tree. ``dtype`` is what it is computed in; None where it is made of numbers alone."""

    expr: Expr
    dtype: str | None
    axes: tuple[Axis, ...] = ()
    tensors: Mapping[str, Source] | None = None
    nodes: int = 1
    depth: int = 1

    def __add__(self, other: object) -> Value:
        return call("add", self, other)

    def __radd__(self, other: object) -> Value:
        return call("add", other, self)

    def __sub__(self, other: object) -> Value:
        return call("sub", self, other)

    def __rsub__(self, other: object) -> Value:
        return call("sub", other, self)

    def __mul__(self, other: object) -> Value:
        return call("mul", self, other)

    def __rmul__(self, other: object) -> Value:
        return call("mul", other, self)

    def __truediv__(self, other: object) -> Value:
        return call("div", self, other)

    def __rtruediv__(self, other: object) -> Value:
        return call("div", other, self)

    def __neg__(self) -> Value:
        return call("neg", self)

    def __bool__(self) -> NoReturn:
        raise IllegalExpression("a value has no truth before it is computed: no if, and, or")


def value(thing: object) -> Value:
    """Return ``thing`` (a Value, an int or a finite float) as a Value; else IllegalExpression."""
    if isinstance(thing, Value):
        return thing
    if isinstance(thing, Position):
        names = ", ".join(thing.form.axes)
        raise IllegalExpression(f"axis {names!r} is used as a value; only tensors can be read")
    if isinstance(thing, bool) or not isinstance(thing, int | float):
        raise IllegalExpression(
            f"a value is a read, a number or a function of them, not a {type(thing).__name__}"
        )
    try:
        number = float(thing) + 0.0  # no negative zero: equal trees have equal texts
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise IllegalExpression(f"a constant is a finite number, not {str(thing)[:40]}")
    # Whole numbers suit integers and floats alike.
    return Value(Const(number), None if number.is_integer() else "float32")


def call(function: str, *args: object) -> Value:
    """Apply a function of ``search_space.expr.FUNCTIONS``; raises IllegalExpression."""
    if len(args) != FUNCTIONS[function]:
        raise IllegalExpression(
            f"{function} takes {FUNCTIONS[function]} argument(s), not {len(args)}"
        )
    values = tuple(value(arg) for arg in args)
    dtype = join_dtypes(v.dtype for v in values)
    if function in _FLOAT_ONLY and dtype is not None and DTYPES[dtype].kind == "int":
        raise IllegalExpression(f"{function} of {dtype} is not defined; cast to float32 first")
    return grow(Call(function, tuple(v.expr for v in values)), dtype, values)


def cast(operand: object, dtype: str) -> Value:
    """Round ``operand`` to ``dtype``; raises IllegalExpression on a float made an integer."""
    inner = value(operand)
    check_dtype(dtype)
    if DTYPES[dtype].kind == "int" and inner.dtype and DTYPES[inner.dtype].kind == "float":
        raise IllegalExpression(f"a float is not cast to {dtype}: the rounding is not defined")
    return grow(Cast(dtype, inner.expr), accumulator(dtype), (inner,))


def grow(expr: Expr, dtype: str | None, parts: tuple[Value, ...]) -> Value:
    """Return the value of ``expr`` made of ``parts``, within the bounds on trees."""
    nodes, depth = 1 + sum(p.nodes for p in parts), 1 + max(p.depth for p in parts)
    if nodes > MOST_NODES or depth > DEEPEST:
        raise IllegalExpression(
            f"an expression has at most {MOST_NODES} nodes, {DEEPEST} deep; "
            f"this one has {nodes}, {depth} deep"
        )
    axes = merge_axes(part.axes for part in parts)
    return Value(expr, dtype, axes, merge_tensors(parts), nodes, depth)


def merge_tensors(parts: tuple[Value, ...]) -> dict[str, Source]:
    """Join what ``parts`` read; raises IllegalExpression where one name is two tensors."""
    merged: dict[str, Source] = {}
    for part in parts:
        for name, tensor in (part.tensors or {}).items():
            if merged.setdefault(name, tensor) is not tensor:
                raise IllegalExpression(f"two tensors are called {name!r}, rename one")
    return merged


def join_dtypes(dtypes: Iterable[str | None]) -> str | None:
    """Return the dtype in which values of these dtypes meet: the widest of one kind.

    Integers and floats do not meet: raises IllegalExpression.
    """
    known = sorted({d for d in dtypes if d}, key=lambda d: DTYPES[d].size_bytes)
    if len({DTYPES[d].kind for d in known}) > 1:
        raise IllegalExpression(f"{' and '.join(known)} do not mix; cast one of them first")
    return known[-1] if known else None


def check_dtype(dtype: object) -> str:
    """Return ``dtype`` if it is known; raises IllegalExpression naming those that are."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise IllegalExpression(
            f"dtype {str(dtype)[:40]!r} is unknown; known: {', '.join(DTYPES)}", ("dtype",)
        )
    return dtype
