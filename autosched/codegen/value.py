"""Elementwise expressions as Triton text. Knows nothing of where operands come from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from autosched.codegen.dtype import TRITON_NAMES
from search_space.dtype import DTYPES
from search_space.expr import Call, Cast, Const, Expr, Read, children
from search_space.workload import Reducer

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_PREFIX = {
    "neg": "-({})",
    "abs": "tl.abs({})",
    "exp": "tl.exp({})",
    "log": "tl.log({})",
    "sqrt": "tl.sqrt({})",
    "rsqrt": "tl.rsqrt({})",
    "erf": "tl.erf({})",
    "sigmoid": "tl.sigmoid({})",
    # tanh(x) = 2 sigmoid(2x) - 1: Triton's language has no tanh of its own.
    "tanh": "(2.0 * tl.sigmoid(2.0 * ({})) - 1.0)",
    # NaN must come through, as it does in the reference.
    "max": "tl.maximum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    "min": "tl.minimum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
}

#: Functions that have a shorter form where the result is rounded to 16 bits or less.
SHORT: dict[str, str] = {"erf": "short_erf"}
#: The texts of the short forms, by name.
SHORT_TEXTS: dict[str, str] = {
    "short_erf": """@triton.jit
def short_erf(x):
    # Abramowitz and Stegun 7.1.26: within 1.5e-7, with one exponential and no branch.
    a = tl.abs(x)
    t = 1.0 / (1.0 + 0.3275911 * a)
    p = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    p = t * (0.254829592 + t * (-0.284496736 + t * p))
    y = 1.0 - p * tl.exp(-a * a)
    return tl.where(x < 0, -y, y)
""",
}

#: What leaves a sum or a maximum as it is, by the kind of dtype that it is kept in.
IDENTITY: dict[str, dict[Reducer, str]] = {
    "float": {"sum": "0.0", "max": 'float("-inf")'},
    "int": {"sum": "0", "max": str(-(1 << 31))},
}


def identity_text(reducer: Reducer, dtype: str) -> str:
    """Write what leaves a reduction that is kept in ``dtype`` as it is."""
    return IDENTITY[DTYPES[dtype].kind][reducer]


def value_text(
    expr: Expr,
    read: Callable[[Read], str],
    compute_dtype: str,
    name: Callable[[str], str] | None = None,
    *,
    short: bool = False,
) -> str:
    """Write ``expr``; ``read`` gives the text of an operand already in the compute dtype.

    With ``short`` the result needs no more than the precision of 16-bit numbers.

    What occurs more than once is written once, under the name that ``name`` gives its text.
    """
    often = _repeated(expr) if name else frozenset[Expr]()
    named: dict[Expr, str] = {}

    def write(node: Expr) -> str:
        if node not in often or name is None:
            return spell(node)
        if node not in named:
            named[node] = name(spell(node))
        return named[node]

    def spell(node: Expr) -> str:
        match node:
            case Read():
                return read(node)
            case Const(value):
                return constant_text(value)
            case Cast(dtype, value):
                wide = TRITON_NAMES[compute_dtype]
                return f"({write(value)}).to({TRITON_NAMES[dtype]}).to({wide})"
            case Call(function, args):
                texts = [write(arg) for arg in args]
                if function in _INFIX:
                    return f"({texts[0]} {_INFIX[function]} {texts[1]})"
                if short and function in SHORT:
                    return f"{SHORT[function]}({texts[0]})"
                return _PREFIX[function].format(*texts)

    return write(expr)


def _repeated(expr: Expr) -> frozenset[Expr]:
    """Return the applied functions that occur more than once, however deep."""
    counts = Counter[Expr]()

    def visit(node: Expr) -> None:
        if isinstance(node, Call | Cast):
            counts[node] += 1
            if counts[node] > 1:
                return
        for child in children(node):
            visit(child)

    visit(expr)
    return frozenset(node for node, count in counts.items() if count > 1)


def constant_text(value: float) -> str:
    """Write a number as a literal that Triton reads back exactly."""
    if not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
