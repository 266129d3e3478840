"""Elementwise functions of values. Knows nothing of tensors, axes or dtypes."""

from __future__ import annotations

from collections.abc import Callable

from autosched.te.value import Value, call, value
from search_space import expr


def add(left: object, right: object) -> Value:
    """Return ``left + right``."""
    return call("add", left, right)


def sub(left: object, right: object) -> Value:
    """Return ``left - right``."""
    return call("sub", left, right)


def mul(left: object, right: object) -> Value:
    """Return ``left * right``."""
    return call("mul", left, right)


def div(left: object, right: object) -> Value:
    """Return ``left / right`` of floats."""
    return call("div", left, right)


def maximum(left: object, right: object) -> Value:
    """Return the greater of two values."""
    return call("max", left, right)


def minimum(left: object, right: object) -> Value:
    """Return the lesser of two values."""
    return call("min", left, right)


def neg(operand: object) -> Value:
    """Return ``-operand``."""
    return call("neg", operand)


def abs(operand: object) -> Value:
    """Return the absolute value."""
    return call("abs", operand)


def exp(operand: object) -> Value:
    """Return e to the power of ``operand``."""
    return call("exp", operand)


def log(operand: object) -> Value:
    """Return the natural logarithm."""
    return call("log", operand)


def sqrt(operand: object) -> Value:
    """Return the square root."""
    return call("sqrt", operand)


def rsqrt(operand: object) -> Value:
    """Return one over the square root."""
    return call("rsqrt", operand)


def tanh(operand: object) -> Value:
    """Return the hyperbolic tangent."""
    return call("tanh", operand)


def erf(operand: object) -> Value:
    """Return the error function."""
    return call("erf", operand)


def sigmoid(operand: object) -> Value:
    """Return ``1 / (1 + exp(-operand))``."""
    return call("sigmoid", operand)


def relu(operand: object) -> Value:
    """Return ``max(operand, 0)``."""
    return _derived("relu", operand)


def gelu(operand: object) -> Value:
    """Return ``operand * Phi(operand)``, exact, by the error function."""
    return _derived("gelu", operand)


def gelu_tanh(operand: object) -> Value:
    """Return the approximation of ``gelu`` by tanh."""
    return _derived("gelu_tanh", operand)


def silu(operand: object) -> Value:
    """Return ``operand * sigmoid(operand)``."""
    return _derived("silu", operand)


#: Functions by the names that texts use.
BY_NAME: dict[str, Callable[..., Value]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "max": maximum,
    "maximum": maximum,
    "min": minimum,
    "minimum": minimum,
    "neg": neg,
    "abs": abs,
    "exp": exp,
    "log": log,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "tanh": tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
}


def _derived(name: str, operand: object) -> Value:
    inner = value(operand)
    return _rebuild(expr.DERIVED[name](expr.Read("", ())), inner)


def _rebuild(node: expr.Expr, hole: Value) -> Value:
    if isinstance(node, expr.Call):
        return call(node.function, *(_rebuild(arg, hole) for arg in node.args))
    return hole if isinstance(node, expr.Read) else Value(node, None if _whole(node) else "float32")


def _whole(node: expr.Expr) -> bool:
    return isinstance(node, expr.Const) and float(node.value).is_integer()
