"""What to compute: one computation with fixed shapes, dtypes, layouts and precision.

Knows nothing of how it is computed, and no operator by name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Literal

from search_space.dtype import size_bytes
from search_space.expr import Affine, Call, Cast, Const, Expr, Read, reads, walk

AxisKind = Literal["spatial", "reduction"]
Reducer = Literal["sum", "max"]
#: How products are formed and summed. "ieee": exactly, summed in float32; what 16-bit operands
#: always get. "tf32" rounds float32 operands to 11 bits; "tf32x3" makes three such products of
#: their high and low parts. "fast" sums products of float8 in the tensor core's own narrower
#: accumulator, as vendor libraries do by default.
Precision = Literal["ieee", "tf32", "tf32x3", "fast"]
PRECISIONS: tuple[Precision, ...] = ("ieee", "tf32", "tf32x3", "fast")


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop of a computation: 0 <= name < extent."""

    name: str
    extent: int
    kind: AxisKind


@dataclass(frozen=True)
class Tensor:
    """A tensor as stored: shape and strides in elements, outermost first.

    ``alignment_bytes`` is what its address is promised to be a multiple of. A ``constant`` input
    keeps its values from call to call, as weights do.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] = ()
    alignment_bytes: int = 16
    constant: bool = False

    def __post_init__(self) -> None:
        if not self.strides and self.shape:
            object.__setattr__(self, "strides", contiguous_strides(self.shape))

    @property
    def elements(self) -> int:
        """How many elements the shape holds."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The bytes of the distinct elements (a stride of 0 repeats one)."""
        distinct = math.prod(e for e, s in zip(self.shape, self.strides, strict=True) if s)
        return distinct * size_bytes(self.dtype)


@dataclass(frozen=True)
class Stage:
    """One assignment ``output[index] reducer= value`` over the axes that occur in it.

    With a reducer, ``value`` is computed and accumulated in the dtype of ``output`` (reads are
    widened to it first) and reduced over the axes of ``value`` that ``index`` lacks. Without
    one, ``value`` is computed in the accumulator's dtype of what it reads and rounded once.
    """

    output: str
    index: tuple[Affine, ...]
    value: Expr
    reducer: Reducer | None = None


@dataclass(frozen=True)
class Workload:
    """One computation: inputs, the stages that lead to the output, and a precision.

    ``intermediates`` (such as an accumulator) are written by one stage, read by later ones and
    never stored. The last stage writes ``output``. ``axes`` lists the spatial axes in the order
    of the output's dimensions, then the reduction axes in the order they occur.
    """

    axes: tuple[Axis, ...]
    inputs: tuple[Tensor, ...]
    intermediates: tuple[Tensor, ...]
    output: Tensor
    stages: tuple[Stage, ...]
    precision: Precision = "ieee"
    #: What elements of the output hold at which the last stage, storing at affine positions,
    #: leaves nothing; None where it reaches all. Written in ``element_axes``.
    elsewhere: Expr | None = None
    #: A name for people ("matmul m=512 ..."); in no key and in no canonical text.
    label: str = field(default="", compare=False)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {t.name: t for t in (*self.inputs, *self.intermediates, self.output)}

    @property
    def constants(self) -> tuple[str, ...]:
        """The inputs whose values stay the same from call to call, by name."""
        return tuple(t.name for t in self.inputs if t.constant)

    @property
    def extents(self) -> dict[str, int]:
        """The extent of every axis by name."""
        return {axis.name: axis.extent for axis in self.axes}

    @property
    def element_axes(self) -> tuple[Axis, ...]:
        """One axis per dimension of the output, ``e0``, ``e1``...: those of ``elsewhere``."""
        names = {*self.extents, *self.tensors}
        wishes = (f"e{d}" for d in range(len(self.output.shape)))
        fresh = (wish + "_" * (wish in names) for wish in wishes)
        return tuple(Axis(n, e, "spatial") for n, e in zip(fresh, self.output.shape, strict=True))

    @cached_property
    def canonical(self) -> str:
        """The canonical text: axes and tensors renamed by order, no operator's name."""
        return canonical_text(self)

    @cached_property
    def key(self) -> str:
        """The first 16 hex digits of the SHA-256 of the canonical text."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()[:16]

    @cached_property
    def operations(self) -> int:
        """Arithmetic operations of the reductions: one per function applied and one per sum.

        For a matmul this is the customary 2*m*n*k, for a convolution twice its outputs times its
        taps, padding included. Where the last stage stores at affine positions, points that read
        out of range count for nothing: they come of the residue classes alone.
        """
        scattered = any(len(form.axes) > 1 for form in self.stages[-1].index)
        total = 0
        for stage in self.stages:
            if stage.reducer:
                calls = sum(isinstance(node, Call) for node in walk(stage.value))
                total += points_of(self, stage, in_range=scattered) * (calls + 1)
        return total

    @property
    def compulsory_bytes(self) -> int:
        """Bytes that any kernel must move: each input read once, the output written once."""
        return sum(t.size_bytes for t in self.inputs) + self.output.size_bytes


def points_of(workload: Workload, stage: Stage, *, in_range: bool = False) -> int:
    """Return over how many points a stage runs; ``in_range``: at which all it reads is there."""
    extents, tensors = workload.extents, workload.tensors
    found = reads(stage.value)
    used = {a for form in (*stage.index, *(f for r in found for f in r.index)) for a in form.axes}
    if not in_range:
        return math.prod(extents[name] for name in used)
    bounds = [(f, e) for r in found for f, e in zip(r.index, tensors[r.tensor].shape, strict=True)]
    # A form that never leaves its dimension asks nothing.
    asked = [b for b in dict.fromkeys(bounds) if not _within(b[0], b[1], extents)]
    free = math.prod(extents[n] for n in used if not any(n in form.axes for form, _ in asked))
    return free * math.prod(_points(group, extents) for group in _apart(asked))


def _within(form: Affine, extent: int, extents: Mapping[str, int]) -> bool:
    low, high = form.bounds(extents)
    return low >= 0 and high < extent


def _apart(asked: list[tuple[Affine, int]]) -> list[list[tuple[Affine, int]]]:
    """Group forms that share axes."""
    groups: list[list[tuple[Affine, int]]] = []
    for one in asked:
        linked = [g for g in groups if any(set(one[0].axes) & set(form.axes) for form, _ in g)]
        groups = [g for g in groups if g not in linked]
        groups.append([one, *(other for g in linked for other in g)])
    return groups


def _points(asked: list[tuple[Affine, int]], extents: Mapping[str, int]) -> int:
    """Count the points at which every form of ``asked`` is within its extent.

    All axes but the longest are walked; of that, every form allows one interval.
    """
    axes = sorted({a for form, _ in asked for a in form.axes}, key=lambda a: (extents[a], a))
    longest, total = axes.pop(), 0
    for values in product(*(range(extents[a]) for a in axes)):
        point = dict(zip(axes, values, strict=True))
        low, high = 0, extents[longest] - 1
        for form, extent in asked:
            base = form.constant + sum(c * point.get(a, 0) for a, c in form.terms)
            step = dict(form.terms).get(longest, 0)
            ends = [-base, extent - 1 - base]
            if step == 0:
                high = high if ends[0] <= 0 <= ends[1] else -1
                continue
            first, last = ends if step > 0 else [-ends[1], -ends[0]]
            low = max(low, -(-first // abs(step)))
            high = min(high, last // abs(step))
        total += max(0, high - low + 1)
    return total


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of ``shape``, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def canonical_text(workload: Workload) -> str:
    """Write ``workload`` with axes and tensors renamed by order, one line per tensor and stage."""
    axes = {axis.name: f"i{n}" for n, axis in enumerate(workload.axes)}
    tensors = {name: f"T{n}" for n, name in enumerate(workload.tensors)}
    lines = [f"axes {' '.join(f'i{n}={a.extent}:{a.kind}' for n, a in enumerate(workload.axes))}"]
    for role, group in (
        ("input", workload.inputs),
        ("intermediate", workload.intermediates),
        ("output", (workload.output,)),
    ):
        for t in group:
            layout = f"shape={list(t.shape)} strides={list(t.strides)} align={t.alignment_bytes}"
            layout += " constant" if t.constant else ""
            lines.append(f"{role} {tensors[t.name]} {t.dtype} {layout}".replace(", ", ","))
    for stage in workload.stages:
        left = f"{tensors[stage.output]}[{','.join(_affine(f, axes) for f in stage.index)}]"
        lines.append(f"{left} {stage.reducer or ''}= {_expr(stage.value, axes, tensors)}")
    if workload.elsewhere is not None:
        elements = {axis.name: f"e{d}" for d, axis in enumerate(workload.element_axes)}
        lines.append(f"elsewhere {_expr(workload.elsewhere, elements, tensors)}")
    lines.append(f"precision {workload.precision}")
    return "\n".join(lines) + "\n"


def _affine(form: Affine, axes: dict[str, str]) -> str:
    terms = sorted((axes[name], coefficient) for name, coefficient in form.terms)
    parts = [name if c == 1 else f"{c}*{name}" for name, c in terms]
    if form.constant or not parts:
        parts.append(str(form.constant))
    return "+".join(parts)


def _expr(expr: Expr, axes: dict[str, str], tensors: dict[str, str]) -> str:
    match expr:
        case Read(tensor, index):
            return f"{tensors[tensor]}[{','.join(_affine(form, axes) for form in index)}]"
        case Const(value):
            return repr(float(value))
        case Cast(dtype, value):
            return f"{dtype}({_expr(value, axes, tensors)})"
        case Call(function, args):
            return f"{function}({','.join(_expr(arg, axes, tensors) for arg in args)})"
