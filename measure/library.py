"""How torch's library computes a workload best: the baseline to compare with.

Found by structure, from the expression alone: one product of two operands, summed over one axis,
and a chain of elementwise steps on it. Knows nothing of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from search_space.expr import Call, Cast, Const, Expr, Read, derived, walk
from search_space.workload import Workload

#: Computes the workload from its inputs, in order, into the output given.
LibraryCall = Callable[[Sequence[torch.Tensor], torch.Tensor], None]


@dataclass(frozen=True)
class _View:
    """An input of the workload with its dimensions permuted.

    ``trailing`` adds a last dimension of 1: one element for each row of the product.
    """

    position: int
    order: tuple[int, ...]
    trailing: bool = False

    def of(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        view = inputs[self.position].permute(self.order)
        return view.unsqueeze(-1) if self.trailing else view


@dataclass(frozen=True)
class _Step:
    """One elementwise step on the product: a derived function, or ``call`` with an operand."""

    function: str
    operand: _View | float | None = None


@dataclass(frozen=True)
class _Product:
    """``out[order] = steps(a @ b)``; a is [*batch, m, k], b [*batch, k, n]."""

    a: _View
    b: _View
    order: tuple[int, ...]
    steps: tuple[_Step, ...]
    dtype: str
    out_dtype: str
    tf32: bool

    @property
    def batched(self) -> bool:
        return len(self.a.order) > 2

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        out = output.permute(self.order)
        if not self.tf32:
            self._compute(inputs, out)
            return
        torch.set_float32_matmul_precision("high")
        try:
            self._compute(inputs, out)
        finally:
            torch.set_float32_matmul_precision("highest")

    def _compute(self, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        done = self._multiply(inputs, self.a.of(inputs), self.b.of(inputs), out)
        for step in self.steps[done:]:
            _apply(step, inputs, out)

    def _multiply(
        self, inputs: Sequence[torch.Tensor], a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
    ) -> int:
        """Form the product in ``out``, with as many steps as one call takes; return how many."""
        first = self.steps[0] if self.steps else None
        if self.dtype == "int8":
            torch._int_mm(a, b, out=out)
        elif self.dtype == "float8_e4m3":
            return _scaled(self.steps, inputs, a, b, out)
        elif self.dtype != self.out_dtype:
            product = torch.bmm if self.batched else torch.mm
            product(a, b, out_dtype=out.dtype, out=out)
        elif first is None or self.batched:
            return self._multiply_batch(inputs, a, b, out, first)
        elif first.function == "add" and isinstance(first.operand, _View):
            return self._multiply_add(first.operand.of(inputs), a, b, out)
        elif first.function == "mul" and isinstance(first.operand, float):
            torch.addmm(out, a, b, beta=0, alpha=first.operand, out=out)
            return 1
        else:
            torch.mm(a, b, out=out)
        return 0

    def _multiply_batch(
        self,
        inputs: Sequence[torch.Tensor],
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
        first: _Step | None,
    ) -> int:
        if not self.batched:
            torch.mm(a, b, out=out)
            return 0
        if (
            out.dim() == 3
            and first
            and first.function == "add"
            and isinstance(first.operand, _View)
        ):
            added = first.operand.of(inputs)
            if added.dim() == 3:
                torch.baddbmm(added, a, b, out=out)
                return 1
        if out.dim() == 3:
            torch.bmm(a, b, out=out)
        else:
            torch.matmul(a, b, out=out)
        return 0

    def _multiply_add(
        self, added: torch.Tensor, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
    ) -> int:
        """Add in the same call, and apply an activation in it where the library can."""
        second = self.steps[1].function if len(self.steps) > 1 else ""
        fused = added.dim() == 1 and second in ("relu", "gelu_tanh") and out.is_cuda
        if fused and out.element_size() == 2:
            torch._addmm_activation(added, a, b, use_gelu=second == "gelu_tanh", out=out)
            return 2
        torch.addmm(added, a, b, out=out)
        return 1


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "relu": torch.relu_,
    "gelu": lambda x: torch.ops.aten.gelu_(x, approximate="none"),
    "gelu_tanh": lambda x: torch.ops.aten.gelu_(x, approximate="tanh"),
    "silu": lambda x: torch.nn.functional.silu(x, inplace=True),
}
_OPERATIONS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "add": lambda x, y: x.add_(y),
    "sub": lambda x, y: x.sub_(y),
    "mul": lambda x, y: x.mul_(y),
    "div": lambda x, y: x.div_(y),
    "max": lambda x, y: x.clamp_(min=y),
    "min": lambda x, y: x.clamp_(max=y),
}


def library_call(workload: Workload) -> LibraryCall | None:
    """Return how torch computes ``workload`` best, or None where no single product matches."""
    summed, last = workload.stages[0], workload.stages[-1]
    if summed.reducer != "sum":
        return None
    if (rows := _softmax_argument(workload)) is not None:
        before = replace(workload, stages=(summed, replace(last, value=rows)))
        product = library_call(before)
        return None if product is None else _Softmax(product)
    if len(workload.stages) > 2:
        return None
    steps: list[_Step] | None = []
    if last is not summed:
        same = last.index == summed.index and last.reducer is None
        out_axes = _axes_of(last.index)
        steps = _steps(workload, last.value, summed.output, out_axes) if same else None
    if steps is None:
        return None
    return _product(workload, summed.value, _axes_of(summed.index), tuple(steps))


@dataclass(frozen=True)
class _Softmax:
    """The softmax along the last dimension of what another call leaves in the output."""

    product: LibraryCall

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        self.product(inputs, output)
        torch.softmax(output, -1, out=output)


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
    workload: Workload, value: Expr, out_axes: tuple[str | None, ...], steps: tuple[_Step, ...]
) -> LibraryCall | None:
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
    if len(m) != 1 or len(n) != 1 or len(k) != 1:
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
    return _Product(
        _View(names.index(left.tensor), tuple(a.index(x) for x in (*batch, *m, *k))),
        _View(names.index(right.tensor), tuple(b.index(x) for x in (*batch, *k, *n))),
        order,
        steps,
        dtype,
        workload.output.dtype,
        dtype == "float32" and workload.precision == "tf32",
    )


def _steps(
    workload: Workload, value: Expr, acc: str, out_axes: tuple[str | None, ...]
) -> list[_Step] | None:
    """Take an expression apart into steps on the product, innermost first; None if it is none."""
    if isinstance(value, Read):
        return [] if value.tensor == acc and _axes_of(value.index) == out_axes else None
    if isinstance(value, Cast):
        return _steps(workload, value.value, acc, out_axes)
    if not isinstance(value, Call):
        return None
    if (activation := derived(value)) and activation[0] in _ACTIVATIONS:
        below = _steps(workload, activation[1], acc, out_axes)
        return None if below is None else [*below, _Step(activation[0])]
    if value.function not in _OPERATIONS:
        return None
    left, right = value.args
    if not _holds(left, acc) and value.function in ("add", "mul", "max", "min"):
        left, right = right, left
    operand = _operand(workload, right, out_axes)
    below = _steps(workload, left, acc, out_axes)
    if operand is None or below is None:
        return None
    return [*below, _Step(value.function, operand)]


def _holds(value: Expr, tensor: str) -> bool:
    return any(isinstance(node, Read) and node.tensor == tensor for node in walk(value))


def _operand(
    workload: Workload, value: Expr, out_axes: tuple[str | None, ...]
) -> _View | float | None:
    """Return what a step combines the product with: a number, or an input that broadcasts."""
    if isinstance(value, Cast):
        return _operand(workload, value.value, out_axes)
    if isinstance(value, Const):
        return float(value.value)
    names = [t.name for t in workload.inputs]
    if not isinstance(value, Read) or value.tensor not in names:
        return None
    axes, position = _axes_of(value.index), names.index(value.tensor)
    if workload.tensors[value.tensor].elements == 1:
        return _View(position, tuple(range(len(axes))))
    if axes and axes == out_axes[-len(axes) :]:
        return _View(position, tuple(range(len(axes))))
    if axes and axes == out_axes[-1 - len(axes) : -1]:
        return _View(position, tuple(range(len(axes))), trailing=True)
    return None


def _apply(step: _Step, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """Apply one step in place."""
    if step.operand is None:
        _ACTIVATIONS[step.function](out)
        return
    operand = step.operand.of(inputs) if isinstance(step.operand, _View) else step.operand
    _OPERATIONS[step.function](out, operand)


def _scaled(
    steps: Sequence[_Step],
    inputs: Sequence[torch.Tensor],
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
) -> int:
    """Multiply 8-bit floats, accumulating fast as the library does by default.

    Up to two factors of one element and a bias go into the call; return how many steps did.
    """
    scales: list[torch.Tensor] = []
    for step in steps[:2]:
        if step.function == "mul" and isinstance(step.operand, _View):
            scale = step.operand.of(inputs)
            if scale.numel() == 1:
                scales.append(scale.view(()))
                continue
        break
    done = len(scales)
    one = torch.ones((), dtype=torch.float32, device=a.device)
    scales += [one] * (2 - done)
    bias = None
    if len(steps) > done and steps[done].function == "add":
        operand = steps[done].operand
        added = operand.of(inputs) if isinstance(operand, _View) else None
        if added is not None and added.dim() == 1 and added.dtype == out.dtype:
            bias, done = added, done + 1
    torch._scaled_mm(
        a,
        b,
        scale_a=scales[0],
        scale_b=scales[1],
        bias=bias,
        out_dtype=out.dtype,
        use_fast_accum=True,
        out=out,
    )
    return done
