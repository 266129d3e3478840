"""Constant folding: functions of numbers alone become the number. Knows no tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

from search_space.expr import Call, Const, Expr, rewrite

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda a: 1.0 / (1.0 + math.exp(-a)),
}


def folded(expr: Expr) -> Expr:
    """Return ``expr`` with numbers in place of what is made of numbers alone.

    What has no finite value, such as the logarithm of 0, stays as it is written; so do casts.
    """
    return rewrite(expr, _fold)


def _fold(node: Expr) -> Expr:
    if not isinstance(node, Call):
        return node
    numbers = [float(arg.value) for arg in node.args if isinstance(arg, Const)]
    if len(numbers) < len(node.args):
        return node
    try:
        result = _FUNCTIONS[node.function](*numbers) + 0.0
    except (ArithmeticError, ValueError):
        return node
    return Const(result) if math.isfinite(result) else node
