"""A product of two operands and elementwise steps on it, as calls of torch's library.

Knows neither the expression that it was found in nor which of several calls is best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch

from measure.tensor import TORCH_DTYPES

HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class View:
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
        """Return the view of its input."""
        view = inputs[self.position].permute(self.order)
        return view.unsqueeze(-1) if self.trailing else view


@dataclass(frozen=True)
class Aligned:
    """An input that broadcasts against the output: permuted, with extents of 1 where it has none.

    ``dims`` are the dimensions of the output that it runs along, ascending.
    """

    position: int
    order: tuple[int, ...]
    dims: tuple[int, ...]
    rank: int
    dtype: str

    def of(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the view of its input, of the output's rank."""
        view = inputs[self.position].permute(self.order)
        for dim in range(self.rank):
            if dim not in self.dims:
                view = view.unsqueeze(dim)
        return view

    def flat(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return its elements in a row."""
        return inputs[self.position].permute(self.order).reshape(-1)


@dataclass(frozen=True)
class Step:
    """One elementwise step on the product: a derived function, or ``call`` with an operand."""

    function: str
    operand: View | Aligned | float | None = None


@dataclass(frozen=True)
class Product:
    """``out[order] = steps(a @ b)``; a is [*batch, m, k], b [*batch, k, n].

    ``most_fused`` bounds the steps that the product's own call takes along; ``by`` names a call
    that is not the usual one: "linear" or "mv".
    """

    a: View
    b: View
    order: tuple[int, ...]
    steps: tuple[Step, ...]
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
        if first and first.function == "add" and isinstance(first.operand, View):
            dims = len(first.operand.order) + first.operand.trailing
            if self.by == "linear" and dims == 1:
                return "linear", 1
            gelu = second is not None and second.function in ("relu", "gelu_tanh")
            if not self.batched and dims == 1 and gelu and self.out_dtype in HALVES:
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
            apply_step(step, inputs, out)
        return out

    def _multiply(
        self, inputs: Sequence[torch.Tensor], a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
    ) -> int:
        """Form the product in ``out``, with as many steps as one call takes; return how many."""
        head, fused = self._head
        added = None
        if fused and self.steps[0].function == "add" and isinstance(self.steps[0].operand, View):
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
        operands = [s.operand.of(inputs) for s in self.steps[:fused] if isinstance(s.operand, View)]
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


ACTIVATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "relu": torch.relu_,
    "gelu": lambda x: torch.ops.aten.gelu_(x, approximate="none"),
    "gelu_tanh": lambda x: torch.ops.aten.gelu_(x, approximate="tanh"),
    "silu": lambda x: torch.nn.functional.silu(x, inplace=True),
}
OPERATIONS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "add": lambda x, y: x.add_(y),
    "sub": lambda x, y: x.sub_(y),
    "mul": lambda x, y: x.mul_(y),
    "div": lambda x, y: x.div_(y),
    "max": lambda x, y: x.clamp_(min=y),
    "min": lambda x, y: x.clamp_(max=y),
}


def apply_step(step: Step, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """Apply one step in place."""
    if step.operand is None:
        ACTIVATIONS[step.function](out)
        return
    operand: Any = step.operand
    if isinstance(operand, View | Aligned):
        operand = operand.of(inputs)
    OPERATIONS[step.function](out, operand)


def _scaled_steps(steps: Sequence[Step], out_dtype: str) -> int:
    """Return how many steps ``_scaled_mm`` takes: up to two factors of one element, and a bias."""
    done = 0
    for step in steps[:2]:
        if step.function != "mul" or not isinstance(step.operand, View) or not step.operand.single:
            break
        done += 1
    if len(steps) > done and steps[done].function == "add":
        operand = steps[done].operand
        if isinstance(operand, View) and not operand.single and len(operand.order) == 1:
            return done + (not operand.trailing and operand.dtype == out_dtype)
    return done
