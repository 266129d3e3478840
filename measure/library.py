"""How torch's library computes a workload best: the baseline to compare with.

Found by structure, from the expression alone: one product of two operands, summed over one axis,
and a chain of elementwise steps on it, perhaps the softmax of its rows. Where torch has several
ways to write it they are the workload's *forms*; which is fastest only a GPU can say. Knows nothing
of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch

from measure.tensor import TORCH_DTYPES
from search_space.expr import Call, Cast, Const, Expr, Read, derived, walk
from search_space.workload import Workload

#: Computes the workload from its inputs, in order, into the output given.
LibraryCall = Callable[[Sequence[torch.Tensor], torch.Tensor], None]

_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Form:
    """One way to write a workload in torch: what is called, in order, and what calls it."""

    name: str
    call: LibraryCall


@dataclass(frozen=True)
class _View:
    """An input of the workload with its dimensions permuted.

    ``trailing`` adds a last dimension of 1: one element for each row of the product. ``single``
    says that it is one element.
    """

    position: int
    order: tuple[int, ...]
    dtype: str
    trailing: bool = False
    single: bool = False

    def of(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        view = inputs[self.position].permute(self.order)
        return view.unsqueeze(-1) if self.trailing else view


@dataclass(frozen=True)
class _Step:
    """One elementwise step on the product: a derived function, or ``call`` with an operand."""

    function: str
    operand: _View | float | None = None


@dataclass(frozen=True)
class Product:
    """``out[order] = steps(a @ b)``; a is [*batch, m, k], b [*batch, k, n].

    ``most_fused`` bounds the steps that the product's own call takes along; ``by`` names a call
    that is not the usual one: "linear" or "mv".
    """

    a: _View
    b: _View
    order: tuple[int, ...]
    steps: tuple[_Step, ...]
    dtype: str
    out_dtype: str
    precision: str
    #: The extents of m and n.
    sizes: tuple[int, int]
    most_fused: int = 3
    by: str = ""

    @property
    def batched(self) -> bool:
        """Whether there is more than one product."""
        return len(self.a.order) > 2

    @property
    def name(self) -> str:
        """What is called, in order."""
        head, fused = self._head
        return ", ".join((head, *(step.function for step in self.steps[fused:])))

    @cached_property
    def _head(self) -> tuple[str, int]:
        """What forms the product on a GPU, and how many steps it takes along."""
        if self.dtype == "int8":
            return "_int_mm", 0
        if self.dtype == "float8_e4m3":
            return "_scaled_mm", _scaled_steps(self.steps[: self.most_fused], self.out_dtype)
        if self.dtype != self.out_dtype:
            return ("bmm" if self.batched else "mm") + f"(out_dtype={self.out_dtype})", 0
        whole = len(self.a.order) <= 3
        first, second = (*self.steps[: self.most_fused], None, None)[:2]
        if first and first.function == "add" and isinstance(first.operand, _View):
            dims = len(first.operand.order) + first.operand.trailing
            if self.by == "linear" and dims == 1:
                return "linear", 1
            gelu = second is not None and second.function in ("relu", "gelu_tanh")
            if not self.batched and dims == 1 and gelu and self.out_dtype in _HALVES:
                return "_addmm_activation", 2
            if not self.by and not self.batched:
                return "addmm", 1
            if self.batched and whole and dims == 3:
                return "baddbmm", 1
        scaled = first is not None and first.function == "mul" and isinstance(first.operand, float)
        if scaled and not self.batched and not self.by:
            return "addmm(alpha)", 1
        return self.by or ("mm" if not self.batched else "bmm" if whole else "matmul"), 0

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        """Compute into ``output``."""
        out = output.permute(self.order)
        if self.precision != "tf32" or self.dtype != "float32":
            self._compute(inputs, out)
            return
        torch.set_float32_matmul_precision("high")
        try:
            self._compute(inputs, out)
        finally:
            torch.set_float32_matmul_precision("highest")

    def _compute(self, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        done = self._multiply(inputs, self.a.of(inputs), self.b.of(inputs), out)
        self.finished(inputs, out, done)

    def finished(
        self, inputs: Sequence[torch.Tensor], out: torch.Tensor, done: int = 0
    ) -> torch.Tensor:
        """Apply all steps but the first ``done`` to a product, in place, and return it."""
        for step in self.steps[done:]:
            _apply(step, inputs, out)
        return out

    def _multiply(
        self, inputs: Sequence[torch.Tensor], a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
    ) -> int:
        """Form the product in ``out``, with as many steps as one call takes; return how many."""
        head, fused = self._head
        added = None
        if fused and self.steps[0].function == "add" and isinstance(self.steps[0].operand, _View):
            added = self.steps[0].operand.of(inputs)
        match head:
            case "_int_mm":
                torch._int_mm(a, b, out=out)
            case "_scaled_mm":
                torch._scaled_mm(a, b, **self.scaling(inputs, _one(out.device)), out=out)
            case "linear":
                torch.ops.aten.linear.out(a, b.t(), added, out=out)
            case "mv" if self.sizes[0] == 1:
                torch.mv(b.t(), a[0], out=out[0])
            case "mv":
                torch.mv(a, b[:, 0], out=out[:, 0])
            case "addmm(alpha)":
                factor = self.steps[0].operand
                assert isinstance(factor, float)  # noqa: S101  what _head saw
                torch.addmm(out, a, b, beta=0, alpha=factor, out=out)
            case "_addmm_activation" if out.is_cuda and added is not None:
                gelu = self.steps[1].function == "gelu_tanh"
                torch._addmm_activation(added, a, b, use_gelu=gelu, out=out)
            case "addmm" | "_addmm_activation" if added is not None:
                torch.addmm(added, a, b, out=out)
                return 1
            case "baddbmm" if added is not None:
                torch.baddbmm(added, a, b, out=out)
            case _ if self.dtype != self.out_dtype:
                _multiply_wide(a, b, out)
            case _:
                torch.matmul(a, b, out=out)
        return fused

    def scaling(self, inputs: Sequence[torch.Tensor], one: torch.Tensor) -> dict[str, Any]:
        """Return what ``_scaled_mm`` takes beside 8-bit operands, as many steps as it can.

        ``one`` is the scale of an operand that has none.
        """
        _, fused = self._head
        operands = [
            s.operand.of(inputs) for s in self.steps[:fused] if isinstance(s.operand, _View)
        ]
        scales = [x.reshape(()) for x in operands if x.numel() == 1]
        bias = operands[-1] if len(scales) < fused else None
        scales += [one] * (2 - len(scales))
        return {
            "scale_a": scales[0],
            "scale_b": scales[1],
            "bias": bias,
            "out_dtype": TORCH_DTYPES[self.out_dtype],
            "use_fast_accum": self.precision == "fast",
        }

    @property
    def fused(self) -> int:
        """How many steps the product's own call takes along."""
        return self._head[1]


@lru_cache(maxsize=8)
def _one(device: torch.device) -> torch.Tensor:
    """Return the scale of an operand that has none; kept, so that no call fills it anew."""
    return torch.ones((), dtype=torch.float32, device=device)


def _multiply_wide(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Multiply 16-bit operands into float32 sums that nobody rounds."""
    if not out.is_cuda:  # only CUDA has such a product
        out.copy_(torch.matmul(a.to(out.dtype), b.to(out.dtype)))
    elif out.dim() == 2:
        torch.mm(a, b, out_dtype=out.dtype, out=out)
    else:
        left, right = (x.reshape(-1, *x.shape[-2:]) for x in (a, b))
        torch.bmm(left, right, out_dtype=out.dtype, out=out.view(-1, *out.shape[-2:]))


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
    """Return how torch computes ``workload`` best as a rule, or None where it has no form."""
    return next((form.call for form in library_forms(workload)), None)


def library_forms(workload: Workload) -> tuple[Form, ...]:
    """Return the ways to write ``workload`` in torch, the best as a rule first; or none.

    Not all need be right: rounding the scores of a softmax to 16 bits may cost too much.
    """
    if (product := library_product(workload)) is not None:
        return tuple(Form(form.name, form) for form in _variants(product))
    if (scores := softmax_product(workload)) is None:
        return ()
    found = [Form(f"{form.name}, softmax", _Softmax(form)) for form in _variants(scores)]
    if scores.dtype in _HALVES and scores.out_dtype == scores.dtype:
        wide = replace(scores, out_dtype="float32")
        found.insert(0, Form(f"{wide.name}, softmax, to {scores.out_dtype}", _WideSoftmax(wide)))
    return tuple(found)


def _variants(product: Product) -> list[Product]:
    """Return a product by each of the calls that torch has for it, the most fused first."""
    found = [product]
    plain = product.dtype == product.out_dtype and not product.batched
    if plain and product.b.order == (1, 0):
        found.append(replace(product, by="linear", most_fused=1))
    if plain and 1 in product.sizes:
        found.append(replace(product, by="mv", most_fused=0))
    found += [replace(product, most_fused=most) for most in range(product.fused - 1, -1, -1)]
    return list({form.name: form for form in reversed(found)}.values())[::-1]


def library_product(workload: Workload) -> Product | None:
    """Return ``workload`` as one product and steps on it, or None if it is none."""
    summed, last = workload.stages[0], workload.stages[-1]
    if summed.reducer != "sum" or len(workload.stages) > 2:
        return None
    steps: list[_Step] | None = []
    if last is not summed:
        same = last.index == summed.index and last.reducer is None
        out_axes = _axes_of(last.index)
        steps = _steps(workload, last.value, summed.output, out_axes) if same else None
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


@dataclass(frozen=True)
class _Softmax:
    """The softmax along the last dimension of what another call leaves in the output."""

    product: LibraryCall

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        self.product(inputs, output)
        torch.softmax(output, -1, out=output)


@dataclass(frozen=True)
class _WideSoftmax:
    """The softmax of float32 scores, rounded once."""

    product: LibraryCall

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        scores = torch.empty(output.shape, dtype=torch.float32, device=output.device)
        self.product(inputs, scores)
        output.copy_(torch.softmax(scores, -1, out=scores))


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
        _View(names.index(left.tensor), tuple(a.index(x) for x in (*batch, *m, *k)), dtype),
        _View(names.index(right.tensor), tuple(b.index(x) for x in (*batch, *k, *n)), dtype),
        order,
        steps,
        dtype,
        workload.output.dtype,
        workload.precision,
        (workload.extents[m[0]], workload.extents[n[0]]),
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
    tensor, view = workload.tensors[value.tensor], tuple(range(len(axes)))
    if tensor.elements == 1:
        return _View(position, view, tensor.dtype, single=True)
    if axes and axes == out_axes[-len(axes) :]:
        return _View(position, view, tensor.dtype)
    if axes and axes == out_axes[-1 - len(axes) : -1]:
        return _View(position, view, tensor.dtype, trailing=True)
    return None


def _apply(step: _Step, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """Apply one step in place."""
    if step.operand is None:
        _ACTIVATIONS[step.function](out)
        return
    operand = step.operand.of(inputs) if isinstance(step.operand, _View) else step.operand
    _OPERATIONS[step.function](out, operand)


def _scaled_steps(steps: Sequence[_Step], out_dtype: str) -> int:
    """Return how many steps ``_scaled_mm`` takes: up to two factors of one element, and a bias."""
    done = 0
    for step in steps[:2]:
        if step.function != "mul" or not isinstance(step.operand, _View) or not step.operand.single:
            break
        done += 1
    if len(steps) > done and steps[done].function == "add":
        operand = steps[done].operand
        if isinstance(operand, _View) and not operand.single and len(operand.order) == 1:
            return done + (not operand.trailing and operand.dtype == out_dtype)
    return done
