"""Expression trees of tensor computations. Knows nothing of schedules, devices or text forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """A linear form over axes, ``sum(coefficient * axis) + constant``; integers only.

    ``terms`` is sorted by axis name and holds no zero coefficient, so equal forms compare equal.
    """

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    @staticmethod
    def of(terms: Mapping[str, int], constant: int = 0) -> Affine:
        """Build the normal form: zero coefficients dropped, axes sorted by name."""
        return Affine(tuple(sorted((a, c) for a, c in terms.items() if c)), constant)

    @staticmethod
    def axis(name: str) -> Affine:
        """Return the form that is one axis."""
        return Affine(((name, 1),))

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + coefficient
        return Affine.of(terms, self.constant + other.constant)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scale(-1)

    def scale(self, factor: int) -> Affine:
        """Return ``factor`` times this form."""
        return Affine.of({a: c * factor for a, c in self.terms}, self.constant * factor)

    def substitute(self, forms: Mapping[str, Affine]) -> Affine:
        """Replace every axis that ``forms`` names by its form, all at once."""
        result = Affine((), self.constant)
        for name, coefficient in self.terms:
            result = result + forms.get(name, Affine.axis(name)).scale(coefficient)
        return result

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Return the least and the greatest value over all points of axes of these extents."""
        ends = [(c * (extents[name] - 1)) for name, c in self.terms]
        low = self.constant + sum(end for end in ends if end < 0)
        return low, self.constant + sum(end for end in ends if end > 0)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that occur, sorted by name."""
        return tuple(name for name, _ in self.terms)

    @property
    def single(self) -> str | None:
        """The axis, if the form is exactly one axis with coefficient 1; else None."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a tensor at an affine position, one form per dimension."""

    tensor: str
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Const:
    """A number."""

    value: float | int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of ``FUNCTIONS`` applied to as many arguments as it takes."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value rounded to a dtype."""

    dtype: str
    value: Expr


Expr = Read | Const | Call | Cast

#: Every elementwise function and the number of arguments it takes.
FUNCTIONS: dict[str, int] = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "max": 2,
    "min": 2,
    "neg": 1,
    "abs": 1,
    "exp": 1,
    "log": 1,
    "sqrt": 1,
    "rsqrt": 1,
    "tanh": 1,
    "erf": 1,
    "sigmoid": 1,
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of ``expr``."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Cast):
        return (expr.value,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield ``expr`` and everything below it, operands before what uses them, left to right."""
    for child in children(expr):
        yield from walk(child)
    yield expr


def reads(expr: Expr) -> tuple[Read, ...]:
    """Return the distinct reads of ``expr`` in the order they occur."""
    return tuple(dict.fromkeys(node for node in walk(expr) if isinstance(node, Read)))


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild ``expr`` bottom up, replacing each node by ``change(node)``."""
    if isinstance(expr, Call):
        expr = Call(expr.function, tuple(rewrite(arg, change) for arg in expr.args))
    elif isinstance(expr, Cast):
        expr = Cast(expr.dtype, rewrite(expr.value, change))
    return change(expr)


def relu(x: Expr) -> Expr:
    """Return ``max(x, 0)``."""
    return Call("max", (x, Const(0.0)))


def gelu(x: Expr) -> Expr:
    """Return ``x * Phi(x)`` by the error function (Hendrycks and Gimpel, arXiv:1606.08415)."""
    half = Call("mul", (Const(0.5), x))
    inner = Call("erf", (Call("mul", (x, Const(math.sqrt(0.5)))),))
    return Call("mul", (half, Call("add", (Const(1.0), inner))))


def gelu_tanh(x: Expr) -> Expr:
    """Return the approximation of ``gelu`` by tanh (Hendrycks and Gimpel, arXiv:1606.08415)."""
    half = Call("mul", (Const(0.5), x))
    cube = Call("mul", (Call("mul", (Call("mul", (Const(0.044715), x)), x)), x))
    inner = Call("mul", (Const(math.sqrt(2.0 / math.pi)), Call("add", (x, cube))))
    return Call("mul", (half, Call("add", (Const(1.0), Call("tanh", (inner,))))))


def silu(x: Expr) -> Expr:
    """Return ``x * sigmoid(x)``."""
    return Call("mul", (x, Call("sigmoid", (x,))))


#: Functions of one argument that are written out in those of ``FUNCTIONS``.
DERIVED: dict[str, Callable[[Expr], Expr]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
}
_HOLE = Read("", ())
_PATTERNS = {name: build(_HOLE) for name, build in DERIVED.items()}


def derived(expr: Expr) -> tuple[str, Expr] | None:
    """Return the name and the argument if ``expr`` is a function of ``DERIVED``, else None."""
    for name, pattern in _PATTERNS.items():
        bound: list[Expr] = []
        if _matches(pattern, expr, bound):
            return name, bound[0]
    return None


def _matches(pattern: Expr, expr: Expr, bound: list[Expr]) -> bool:
    if pattern == _HOLE:
        if not bound:
            bound.append(expr)
        return bound[0] == expr
    if isinstance(pattern, Call) and isinstance(expr, Call):
        pairs = zip(pattern.args, expr.args, strict=False)
        same = pattern.function == expr.function
        return same and all(_matches(p, e, bound) for p, e in pairs)
    return pattern == expr
