"""Constant folding: functions of numbers alone become the number. Knows no tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

from autosched.te.error import IllegalExpression
from search_space.expr import Call, Cast, Const, Expr, rewrite

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


#: Whole numbers up to this one are the same in every float dtype.
_EXACT = 16


def folded(expr: Expr) -> Expr:
    """Return ``expr`` with numbers in place of what is made of numbers alone.

    Raises IllegalExpression where such a number is not finite, as the logarithm of 0, or is
    rounded by a cast.
    """
    return rewrite(expr, _fold)


def _fold(node: Expr) -> Expr:
    if isinstance(node, Cast) and isinstance(node.value, Const):
        number = float(node.value.value)
        if not number.is_integer() or math.fabs(number) > _EXACT:
            raise IllegalExpression(f"{number} is rounded to {node.dtype} where nothing is summed")
        return node.value
    if not isinstance(node, Call):
        return node
    numbers = [float(arg.value) for arg in node.args if isinstance(arg, Const)]
    if len(numbers) < len(node.args):
        return node
    try:
        result = _FUNCTIONS[node.function](*numbers) + 0.0
    except (ArithmeticError, ValueError):
        result = math.nan
    if not math.isfinite(result):
        given = ", ".join(map(str, numbers))
        raise IllegalExpression(f"{node.function}({given}) has no value where nothing is summed")
    return Const(result)
