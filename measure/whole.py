"""Reductions and elementwise chains as torch's operations on whole tensors.

For workloads whose indices are plain axes. A reduction that torch has by a name of its own (a sum
of products, a norm, pairwise distances) may be made so; whatever follows is one operation each.
Knows nothing of which way is best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from measure.convolution import same_layout, settings
from measure.reference import FUNCTIONS
from measure.tensor import TORCH_DTYPES
from search_space.dtype import DTYPES, size_bytes
from search_space.expr import Call, Cast, Const, Expr, Read, derived, reads
from search_space.workload import Stage, Workload

#: Above this many elements a tensor that only exists to be reduced is not made.
MOST_ELEMENTS = 1 << 31
#: How the first reduction is made: as its formula says, or by a call that torch has for it.
First = Literal["formula", "einsum", "vector_norm", "cdist", "cdist(mm)"]
_EXACT, _BY_PRODUCT = "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist"


@dataclass(frozen=True)
class Whole:
    """A workload's stages, one after another; ``wide`` widens narrow floats to float32 first."""

    workload: Workload
    first: First
    wide: bool

    @property
    def name(self) -> str:
        """How the first reduction is made, or what else is done."""
        head: str = self.first
        if head == "formula":
            reducers = [stage.reducer for stage in self.workload.stages if stage.reducer]
            head = ", ".join("amax" if r == "max" else "sum" for r in reducers) or "elementwise"
        return head + " in float32" * self.wide

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> torch.Tensor | None:
        """Compute into ``output``, or return a tensor that lies as it does."""
        with settings(self.workload.precision):
            made = self.compute(inputs)
            if same_layout(made, output):
                return made
            output.copy_(made)
            return None

    def compute(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the workload's output in a tensor of its own."""
        values = {t.name: x for t, x in zip(self.workload.inputs, inputs, strict=True)}
        if self.wide:
            values = {n: x.float() if _narrow(x.dtype) else x for n, x in values.items()}
        first, *later = self.workload.stages
        made = self._first(first, values)
        if self.first in ("formula", "einsum"):
            values[first.output] = made
        elif _is_root(later[-1], first):  # what torch has is the root already
            return made.to(TORCH_DTYPES[self.workload.output.dtype])
        else:
            values[first.output] = made.square()
        for stage in later:
            values[stage.output] = _formula(stage, values)
        shape, dtype = self.workload.output.shape, TORCH_DTYPES[self.workload.output.dtype]
        return values[self.workload.output.name].expand(shape).to(dtype)

    def _first(self, stage: Stage, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        match self.first:
            case "formula":
                return _formula(stage, values)
            case "einsum":
                return _einsum(stage, values)
            case "vector_norm":
                read = reads(stage.value)[0]
                kept = [form.single for form in stage.index]
                summed = [n for n, form in enumerate(read.index) if form.single not in kept]
                norm: torch.Tensor = torch.linalg.vector_norm(values[read.tensor], dim=summed)
                return norm
            case "cdist" | "cdist(mm)":
                one, two = (values[read.tensor].float() for read in reads(stage.value))
                how = _EXACT if self.first == "cdist" else _BY_PRODUCT
                return torch.cdist(one, two, compute_mode=how)


def whole_forms(workload: Workload) -> Iterator[Whole]:
    """Yield the ways to compute a workload stage by stage; nothing where an index is no axis."""
    if not all(_is_plain(workload, stage) for stage in workload.stages):
        return
    narrow = any(_narrow(TORCH_DTYPES[tensor.dtype]) for tensor in workload.inputs)
    for wide in (False, True)[: 1 + narrow]:
        for first in _firsts(workload):
            yield Whole(workload, first, wide)


def compiled_formula(workload: Workload) -> Whole | None:
    """Return what a compiler that keeps no tensor between stages makes best; None if not plain.

    Sums of products stay products for it to tune; all else is computed in float32.
    """
    if not all(_is_plain(workload, stage) for stage in workload.stages):
        return None
    narrow = any(_narrow(TORCH_DTYPES[tensor.dtype]) for tensor in workload.inputs)
    if "einsum" in _firsts(workload):
        return Whole(workload, "einsum", wide=False)
    return Whole(workload, "formula", narrow)


def _firsts(workload: Workload) -> Iterator[First]:
    stage, last = workload.stages[0], workload.stages[-1]
    plain = stage.reducer == "sum" and stage is not last
    match stage.value:
        case Call("mul", (Read() as one, Read() as two)) if plain and one == two:
            kept = [form.single for form in stage.index]
            order = [form.single for form in one.index if form.single in kept]
            if order == kept:
                yield "vector_norm"
        case Call("mul", (Read(), Read())) if plain:
            yield "einsum"
            return
        case Call("mul", (Call("sub", (Read() as one, Read() as two)), other)) if plain:
            if other == Call("sub", (one, two)) and _is_pairwise(stage, one, two):
                yield "cdist"
                yield "cdist(mm)"
    if _largest(workload) <= MOST_ELEMENTS:
        yield "formula"


def _is_pairwise(stage: Stage, one: Read, two: Read) -> bool:
    """Whether rows of two matrices, perhaps of a batch, meet: [.., i, k] and [.., j, k]."""
    a, b, out = ([f.single for f in index] for index in (one.index, two.index, stage.index))
    alike = len(a) == len(b) == len(out) and a[:-2] == b[:-2] == out[:-2] and len(a) > 1
    return alike and a[-1] == b[-1] and out[-2:] == [a[-2], b[-2]] and a[-2] != b[-2]


def _is_root(last: Stage, first: Stage) -> bool:
    return last.value == Call("sqrt", (Read(first.output, first.index),)) and (
        last.index == first.index
    )


def _is_plain(workload: Workload, stage: Stage) -> bool:
    """Whether a stage runs over its output once, and reads whole tensors at distinct axes."""
    tensors, extents = workload.tensors, workload.extents
    places = [(stage.output, stage.index), *((r.tensor, r.index) for r in reads(stage.value))]
    for name, index in places:
        axes = [form.single for form in index]
        sizes = [extents.get(axis or "", 0) for axis in axes]
        if len(set(axes)) != len(axes) or sizes != list(tensors[name].shape):
            return False
    return bool(reads(stage.value))


def _largest(workload: Workload) -> int:
    """Return the elements of the largest tensor that the formulas make."""
    sizes = [
        math.prod(workload.extents[axis] for axis in _axes(stage)) for stage in workload.stages
    ]
    return max(sizes)


def _axes(stage: Stage) -> list[str]:
    """Return the axes of a stage: those of its output, then those that are reduced."""
    forms = [*stage.index, *(form for read in reads(stage.value) for form in read.index)]
    return list(dict.fromkeys(form.single or "" for form in forms))


def _formula(stage: Stage, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Evaluate a stage with one dimension for each of its axes, then reduce the last ones."""
    axes = _axes(stage)
    value: torch.Tensor = _value(stage.value, values, axes)
    if stage.reducer is None:
        return value
    summed = list(range(len(stage.index), len(axes)))
    if not summed:
        return value
    if stage.reducer == "max":
        return value.amax(summed)
    if not value.dtype.is_floating_point:
        return value.sum(summed, dtype=torch.int32)
    return value.sum(summed, dtype=torch.float32 if _narrow(value.dtype) else value.dtype)


def _value(expr: Expr, values: Mapping[str, torch.Tensor], axes: Sequence[str]) -> Any:
    if (found := derived(expr)) is not None and found[0] in _DERIVED:
        return _DERIVED[found[0]](_value(found[1], values, axes))
    match expr:
        case Read(name, index):
            own = [form.single or "" for form in index]
            view = values[name].permute([own.index(axis) for axis in axes if axis in own])
            for n, axis in enumerate(axes):
                view = view if axis in own else view.unsqueeze(n)
            return view
        case Const(number):
            return number
        case Cast(dtype, inner):
            return _value(inner, values, axes).to(TORCH_DTYPES[dtype])
        case Call("mul", (one, two)) if one == two:
            return _value(one, values, axes).square()
        case Call(function, args):
            return _call(function, [_value(arg, values, axes) for arg in args])


def _call(function: str, args: list[Any]) -> Any:
    numbers = [arg for arg in args if not isinstance(arg, torch.Tensor)]
    if function in ("max", "min") and len(numbers) == 1:
        tensor = next(arg for arg in args if isinstance(arg, torch.Tensor))
        bound = numbers[0]
        return tensor.clamp_min(bound) if function == "max" else tensor.clamp_max(bound)
    return FUNCTIONS[function](*args)


def _einsum(stage: Stage, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    letters = {axis: chr(ord("a") + n) for n, axis in enumerate(_axes(stage))}
    held = reads(stage.value)
    texts = ["".join(letters[f.single or ""] for f in r.index) for r in held]
    out = "".join(letters[form.single or ""] for form in stage.index)
    return torch.einsum(f"{','.join(texts)}->{out}", *(values[read.tensor] for read in held))


def _narrow(dtype: torch.dtype) -> bool:
    found = next((name for name, held in TORCH_DTYPES.items() if held == dtype), "float32")
    return DTYPES[found].kind == "float" and size_bytes(found) < 4


_DERIVED: dict[str, Any] = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}
