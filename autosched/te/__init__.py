"""Tensor expressions: what to compute, apart from any schedule. Knows no devices and no kernels.

A = te.placeholder((m, k), "A", "float16")
B = te.placeholder((k, n), "B", "float16")
r = te.reduce_axis(k, "k")
C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), "C")
work = te.workload(C, dtype="float16")
"""

from autosched.te.error import IllegalExpression
from autosched.te.function import (
    abs,
    add,
    div,
    erf,
    exp,
    gelu,
    gelu_tanh,
    log,
    maximum,
    minimum,
    mul,
    neg,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    sub,
    tanh,
)
from autosched.te.layout import stored
from autosched.te.lower import workload
from autosched.te.position import axis, reduce_axis
from autosched.te.reduction import max, sum
from autosched.te.scatter import place, scatter
from autosched.te.tensor import compute, placeholder
from autosched.te.value import cast

__all__ = [
    "IllegalExpression",
    "abs",
    "add",
    "axis",
    "cast",
    "compute",
    "div",
    "erf",
    "exp",
    "gelu",
    "gelu_tanh",
    "log",
    "max",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "place",
    "placeholder",
    "reduce_axis",
    "relu",
    "rsqrt",
    "scatter",
    "sigmoid",
    "silu",
    "sqrt",
    "stored",
    "sub",
    "sum",
    "tanh",
    "workload",
]
