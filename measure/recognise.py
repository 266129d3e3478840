"""Finds a product and the steps on it in a workload, by structure, from the expression alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from measure.product import ACTIVATIONS, OPERATIONS, Aligned, Product, Step, View
from search_space.expr import Call, Cast, Const, Expr, Read, derived, walk
from search_space.workload import Workload

#: What a step takes beside the result, from the expression for it; None if a step takes no such.
Operand = Callable[[Expr], View | Aligned | float | None]


def library_product(workload: Workload) -> Product | None:
    """Return ``workload`` as one product and steps on it, or None if it is none."""
    summed, last = workload.stages[0], workload.stages[-1]
    if summed.reducer != "sum" or len(workload.stages) > 2:
        return None
    steps: list[Step] | None = []
    if last is not summed:
        same = last.index == summed.index and last.reducer is None
        operand = partial(_operand, workload, _axes_of(last.index))
        acc = Read(summed.output, summed.index)
        steps = steps_on(acc, last.value, operand) if same else None
    if steps is None:
        return None
    return _product(workload, summed.value, _axes_of(summed.index), tuple(steps))


def softmax_product(workload: Workload) -> Product | None:
    """Return the scores whose row softmax ``workload`` is, rounded to its dtype; None if none."""
    rows = _softmax_argument(workload)
    if rows is None:
        return None
    summed, last = workload.stages[0], workload.stages[-1]
    return library_product(replace(workload, stages=(summed, replace(last, value=rows))))


def _softmax_argument(workload: Workload) -> Expr | None:
    """Return what the output is the softmax of along its last axis, or None if it is none."""
    if len(workload.stages) != 4:
        return None
    _, most, total, last = workload.stages
    match last.value:
        case Call(
            "div",
            (
                Call(
                    "exp",
                    (
                        Call(
                            "sub",
                            (rows, Read(peak)),
                        ),
                    ),
                ),
                Read(whole),
            ),
        ):
            pass
        case _:
            return None
    terms = Call("exp", (Call("sub", (rows, Read(most.output, most.index))),))
    is_row = most.index == total.index == last.index[:-1]
    peaks = (peak, most.reducer, most.value) == (most.output, "max", rows)
    sums = (whole, total.reducer, total.value) == (total.output, "sum", terms)
    return rows if is_row and peaks and sums else None


def _axes_of(index: Sequence[Any]) -> tuple[str | None, ...]:
    return tuple(form.single for form in index)


def _product(
    workload: Workload, value: Expr, out_axes: tuple[str | None, ...], steps: tuple[Step, ...]
) -> Product | None:
    match value:
        case Call("mul", (Read() as left, Read() as right)):
            pass
        case _:
            return None
    a, b = _axes_of(left.index), _axes_of(right.index)
    if None in (*a, *b, *out_axes) or any(len(set(x)) != len(x) for x in (a, b, out_axes)):
        return None
    batch = [x for x in out_axes if x in a and x in b]
    m = [x for x in out_axes if x in a and x not in b]
    n = [x for x in out_axes if x in b and x not in a]
    k = [x for x in a if x in b and x not in out_axes]
    if len(m) != 1 or len(n) != 1 or len(k) != 1 or m[0] is None or n[0] is None:
        return None
    if any({*axes} != wish for axes, wish in ((a, {*batch, *m, *k}), (b, {*batch, *n, *k}))):
        return None
    names = [t.name for t in workload.inputs]
    if left.tensor not in names or right.tensor not in names:
        return None
    order = tuple(out_axes.index(x) for x in (*batch, *m, *n))
    if steps and order != tuple(range(len(order))):
        return None
    dtype = workload.tensors[left.tensor].dtype
    if workload.tensors[right.tensor].dtype != dtype:
        return None
    return Product(
        View(names.index(left.tensor), tuple(a.index(x) for x in (*batch, *m, *k)), dtype),
        View(names.index(right.tensor), tuple(b.index(x) for x in (*batch, *k, *n)), dtype),
        order,
        steps,
        dtype,
        workload.output.dtype,
        workload.precision,
        (workload.extents[m[0]], workload.extents[n[0]]),
    )


def steps_on(acc: Read, value: Expr, operand: Operand) -> list[Step] | None:
    """Take an expression apart into steps on ``acc``, innermost first; None if it is none."""
    if isinstance(value, Read):
        return [] if value == acc else None
    if isinstance(value, Cast):
        return steps_on(acc, value.value, operand)
    if not isinstance(value, Call):
        return None
    if (activation := derived(value)) and activation[0] in ACTIVATIONS:
        below = steps_on(acc, activation[1], operand)
        return None if below is None else [*below, Step(activation[0])]
    if value.function not in OPERATIONS:
        return None
    left, right = value.args
    if not _holds(left, acc.tensor) and value.function in ("add", "mul", "max", "min"):
        left, right = right, left
    other, below = operand(right), steps_on(acc, left, operand)
    if other is None or below is None:
        return None
    return [*below, Step(value.function, other)]


def _holds(value: Expr, tensor: str) -> bool:
    return any(isinstance(node, Read) and node.tensor == tensor for node in walk(value))


def _operand(
    workload: Workload, out_axes: tuple[str | None, ...], value: Expr
) -> View | float | None:
    """Return what a step combines the product with: a number, or an input that broadcasts."""
    if isinstance(value, Cast):
        return _operand(workload, out_axes, value.value)
    if isinstance(value, Const):
        return float(value.value)
    names = [t.name for t in workload.inputs]
    if not isinstance(value, Read) or value.tensor not in names:
        return None
    axes, position = _axes_of(value.index), names.index(value.tensor)
    tensor, view = workload.tensors[value.tensor], tuple(range(len(axes)))
    if tensor.elements == 1:
        return View(position, view, tensor.dtype, single=True)
    if axes and axes == out_axes[-len(axes) :]:
        return View(position, view, tensor.dtype)
    if axes and axes == out_axes[-1 - len(axes) : -1]:
        return View(position, view, tensor.dtype, trailing=True)
    return None
