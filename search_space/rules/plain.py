"""Computations without a product of blocks: what runs along a block's sides, and its steps.

A block has up to three sides, M and N of spatial axes and K of reduced ones, each of one axis or of
several fused. Spatial axes beyond go to the grid, or are repeated: a program computes several of
their steps, each with a block of its own, and loads once what these share. Reduced axes beyond are
serial loops, unrolled where they are short. Knows no rule; rules fill in a ``Plan``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from search_space import access
from search_space.apply import IllegalStep, replay
from search_space.dtype import accumulator, size_bytes
from search_space.expr import Call, Read, reads, walk
from search_space.rules.pack import packing_steps
from search_space.sketch import Choice, Sketch, Stream, Structure, fill
from search_space.steps import (
    Bind,
    Fuse,
    Open,
    Order,
    Pack,
    ReduceLate,
    Split,
    SplitReduction,
    Step,
    Tile,
    Unroll,
    Warps,
)
from search_space.workload import Axis, Tensor, Workload

Share = Literal["workspace", "atomic", "counter"]
#: Warps of one program.
WARPS = (1, 2, 4, 8, 16)
#: Shares of a reduction that are joined at a time, and elements of an output that are.
JOINED_SHARES, JOINED_ELEMENTS = 64, 128


@dataclass(frozen=True)
class Plan:
    """A way to compute without a product of blocks. Empty sides have an extent of 1."""

    name: str
    workload: Workload
    domains: Mapping[str, tuple[int, ...]]
    m: tuple[Axis, ...] = ()
    n: tuple[Axis, ...] = ()
    k: tuple[Axis, ...] = ()
    #: Spatial axes of which a program computes several steps, and how many.
    repeats: Mapping[str, int] = field(default_factory=dict)
    #: Reduced axes that no block holds, outermost first, and those of them that are unrolled.
    loops: tuple[Axis, ...] = ()
    unrolled: tuple[str, ...] = ()
    split: Share | None = None
    #: Tensors that are copied first, and the order of their dimensions in the copy.
    packed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def sides(self) -> dict[str, tuple[Axis, ...]]:
        """The sides of the block that are not empty, by name."""
        named = (("m", self.m), ("n", self.n), ("k", self.k))
        return {name: axes for name, axes in named if axes}

    @property
    def others(self) -> tuple[Axis, ...]:
        """The spatial axes that no block holds: what of them is not repeated is on the grid."""
        spatial = (axis for axis in self.workload.axes if axis.kind == "spatial")
        return tuple(axis for axis in spatial if axis not in (*self.m, *self.n))

    def fresh(self, name: str) -> str:
        """Return ``name``, lengthened if something in the workload bears it."""
        while name in self.workload.extents or name in self.workload.tensors:
            name += "_"
        return name

    def rest(self, axis: Axis) -> Axis:
        """Return what of ``axis`` is left for the grid or a block where it is repeated."""
        if axis.name not in self.repeats:
            return axis
        extent = -(-axis.extent // self.repeats[axis.name])
        name = axis.name if extent == axis.extent else self.fresh(f"{axis.name}_rest")
        return Axis(name, extent, axis.kind)

    def extent(self, axes: Sequence[Axis]) -> int:
        """Return the product of what is left of ``axes``."""
        return math.prod(self.rest(axis).extent for axis in axes)


def legal_sketches(plans: Iterable[Plan]) -> tuple[Sketch, ...]:
    """Return the sketches of those ``plans`` that are legal."""
    made = (_sketch(plan) for plan in plans)
    return tuple(sketch for sketch in made if sketch is not None)


def _sketch(plan: Plan) -> Sketch | None:
    choices = tuple(Choice(name, domain) for name, domain in plan.domains.items())
    sketch = Sketch(plan.name, plan.workload, tuple(_steps(plan)), choices, structure_of(plan))
    middle = {choice.name: choice.domain[len(choice.domain) // 2] for choice in choices}
    try:
        replay(plan.workload, fill(sketch, middle))
    except IllegalStep:
        return None
    return sketch


def _steps(plan: Plan) -> Iterator[Step]:
    repeated = list[str]()
    for axis in (a for a in plan.workload.axes if a.name in plan.repeats):
        step = plan.fresh(f"{axis.name}_step")
        repeated.append(step)
        yield Split(axis.name, plan.rest(axis).name, step, plan.repeats[axis.name])
    for number, (tensor, order) in enumerate(plan.packed.items(), start=1):
        yield Pack(tensor, plan.fresh(f"{tensor}_packed"), order)
        yield from packing_steps(plan.workload.tensors[tensor], order, number)
    whole, outer, inner = dict[str, str](), dict[str, str](), dict[str, str]()
    for side, axes in plan.sides.items():
        names = tuple(plan.rest(axis).name for axis in axes)
        whole[side] = names[0] if len(names) == 1 else plan.fresh("_".join(names))
        if len(names) > 1:
            yield Fuse(names, whole[side])
        outer[side], inner[side] = (plan.fresh(f"{whole[side]}{end}") for end in "01")
    shares, parts = plan.fresh("part"), tuple[str, ...]()
    if plan.split:
        rest = plan.fresh(f"{whole['k']}_rest")
        yield SplitReduction(whole["k"], shares, rest, Open("split"), plan.split, Open("tile_k"))
        whole["k"], parts = rest, (shares,)
    for side in whole:
        yield Split(whole[side], outer[side], inner[side], Open(f"tile_{side}"))
    groups = [(inner[side],) for side in whole]
    if plan.split == "counter":
        every = plan.fresh(f"{shares}_all")
        yield Split(every, f"{every}0", f"{every}1", JOINED_SHARES)
        groups.append((f"{every}1",))
    yield Tile(tuple(groups))
    on_grid = [plan.rest(axis).name for axis in plan.others]
    spatial = [outer[side] for side in ("m", "n") if side in outer]
    if on_grid or parts or spatial:
        yield Bind((*on_grid, *parts, *spatial))
    loops = (*(axis.name for axis in plan.loops), *([outer["k"]] if plan.k else []))
    if loops:
        yield Order(loops)
    for name in (*repeated, *plan.unrolled):
        yield Unroll(name)
    if plan.k:
        yield ReduceLate()
    yield Warps(Open("warps"))
    if plan.split in ("workspace", "atomic"):
        yield from _join_steps(plan, shares if plan.split == "workspace" else None)


def _join_steps(plan: Plan, shares: str | None) -> Iterator[Step]:
    """Yield the steps of nest 1, which adds up ``shares``, or takes what atomics added up."""
    spatial = [axis for axis in plan.workload.axes if axis.kind == "spatial"]
    groups, grid = list[tuple[str, ...]](), list[str]()
    if spatial:
        whole = spatial[0].name
        if len(spatial) > 1:
            whole = plan.fresh("_".join(axis.name for axis in spatial))
            yield Fuse(tuple(axis.name for axis in spatial), whole, nest=1)
        width = min(JOINED_ELEMENTS, access_width(plan.extent(spatial)))
        outer, inner = plan.fresh(f"{whole}0"), plan.fresh(f"{whole}1")
        yield Split(whole, outer, inner, width, nest=1)
        groups.append((inner,))
        grid.append(outer)
    if shares:
        yield Split(shares, f"{shares}0", f"{shares}1", JOINED_SHARES // 2, nest=1)
        groups.append((f"{shares}1",))
    yield Tile(tuple(groups), nest=1)
    if grid:
        yield Bind(tuple(grid), nest=1)
    yield Warps(4, nest=1)


def access_width(extent: int) -> int:
    """Return the smallest power of two that covers ``extent``."""
    return 1 << max(0, extent - 1).bit_length()


def structure_of(plan: Plan) -> Structure:
    """Return what bounds and features need to know of a plan."""
    workload = plan.workload
    first = workload.stages[0]
    used = reads(first.value)
    tensors = [workload.tensors[read.tensor] for read in used]
    later = workload.stages[1:]
    extra = {r.tensor for stage in later for r in reads(stage.value)} - {t.name for t in tensors}
    calls = [node for stage in workload.stages for node in walk(stage.value)]
    copies = math.prod(plan.repeats.values())
    serial = [axis for axis in plan.loops if axis.name not in plan.unrolled]
    points = math.prod(a.extent for a in plan.loops if a.name in plan.unrolled)
    timed = [workload.tensors[name] for name in plan.packed]
    timed = [tensor for tensor in timed if not tensor.constant]
    a, b = tensors[0], tensors[-1]
    taps = math.prod(axis.extent for axis in serial)
    held = workload.tensors[first.output].dtype if first.reducer else accumulator(a.dtype)
    return Structure(
        batch=plan.extent(plan.others),
        m=plan.extent(plan.m),
        n=plan.extent(plan.n),
        k=plan.extent(plan.k) * taps,
        taps=taps,
        a_dtype=a.dtype,
        b_dtype=b.dtype,
        accumulator_dtype=held,
        output_dtype=workload.output.dtype,
        arithmetic="float32",
        a_k_major=False,
        b_k_major=False,
        a_row_bytes=access.row_bytes(a),
        b_row_bytes=access.row_bytes(b),
        output_row_bytes=access.row_bytes(workload.output),
        load="pointer",
        store="pointer",
        persistent=False,
        split=plan.split or "none",
        epilogue_bytes=sum(t.size_bytes for t in workload.inputs if t.name in extra),
        epilogue_calls=sum(isinstance(node, Call) for node in calls),
        packs=len(timed),
        packed_bytes=2 * sum(tensor.size_bytes for tensor in timed),
        dot=False,
        lanes=_lane_side(plan),
        streams=tuple(_stream(plan, read) for read in used),
        copies=copies,
        steps=points * copies,
    )


def _stream(plan: Plan, read: Read) -> Stream:
    tensor = plan.workload.tensors[read.tensor]
    inside = {name for form in read.index for name in form.axes}
    along = "".join(
        side for side, axes in plan.sides.items() if inside & {axis.name for axis in axes}
    )
    order = plan.packed.get(read.tensor)
    last = plan.workload.tensors[read.tensor].shape
    row = read.index[order[-1] if order else -1] if last else None
    stride = _stride(plan, tensor, read, packed=bool(order), along=row.axes if row else ())
    is_window = any(len(form.terms) > 1 for form in read.index)
    return Stream(
        element_bytes=size_bytes(tensor.dtype),
        elements=min(tensor.elements, tensor.size_bytes // size_bytes(tensor.dtype)),
        along=along,
        stride=stride,
        width=16 // size_bytes(tensor.dtype) if order else _width(plan, tensor, read, stride),
        loads=_distinct(plan, read),
        masked=is_window,
    )


def _lane(plan: Plan) -> Axis | None:
    """Return the axis along which the lanes of a warp lie: the last of the side whose elements
    lie side by side in the largest tensor, as far as blocks are seen by the compiler."""
    workload = plan.workload
    stores = Read(workload.output.name, workload.stages[-1].index)
    found = [*reads(workload.stages[0].value), stores]
    found.sort(key=lambda read: -workload.tensors[read.tensor].elements)
    lasts = [axes[-1] for axes in plan.sides.values()]
    for read in found:
        for axis in lasts:
            if read.index and axis.name in read.index[-1].axes:
                return axis
    return lasts[-1] if lasts else None


def _lane_side(plan: Plan) -> Literal["m", "n", "k"]:
    lane = _lane(plan)
    if lane in plan.k:
        return "k"
    return "m" if lane in plan.m else "n"


def _stride(plan: Plan, tensor: Tensor, read: Read, *, packed: bool, along: Sequence[str]) -> int:
    """Return the elements between what neighbouring lanes read of ``tensor``; 0 is the same."""
    lane = _lane(plan)
    if lane is None:
        return 0
    if packed:
        return 1 if lane.name in along else 0
    steps = zip(read.index, tensor.strides, strict=True)
    return abs(sum(dict(form.terms).get(lane.name, 0) * stride for form, stride in steps))


def _width(plan: Plan, tensor: Tensor, read: Read, stride: int) -> int:
    """Return how many neighbouring elements one access of a thread moves."""
    size = size_bytes(tensor.dtype)
    if stride != 1 or any(len(form.terms) > 1 for form in read.index[-1:]):
        return 1
    sides = [axes for axes in plan.sides.values() if _lane(plan) in axes]
    is_flat = bool(sides) and math.prod(a.extent for a in sides[0]) == tensor.elements
    aligned = math.gcd(16, tensor.alignment_bytes) if is_flat else access.row_bytes(tensor)
    return max(1, aligned // size)


def _distinct(plan: Plan, read: Read) -> int:
    """Return how many blocks of ``read`` one turn loads: those at one place are loaded once."""
    steps = dict(plan.repeats)
    steps |= {axis.name: axis.extent for axis in plan.loops if axis.name in plan.unrolled}
    inside = {name for form in read.index for name in form.axes}
    names = [name for name in steps if name in inside]
    places = {
        tuple(
            sum(c * dict(zip(names, at, strict=True)).get(name, 0) for name, c in form.terms)
            for form in read.index
        )
        for at in product(*(range(steps[name]) for name in names))
    }
    return len(places)


def runs(axes: Sequence[Axis], workload: Workload) -> list[tuple[Axis, ...]]:
    """Cut ``axes``, outermost first, into runs that every tensor holds as one or not at all."""
    stores = Read(workload.output.name, workload.stages[-1].index)
    found = [r for stage in workload.stages for r in reads(stage.value)]
    inputs = {tensor.name for tensor in workload.inputs}
    every = [stores, *(read for read in found if read.tensor in inputs)]
    groups = list[tuple[Axis, ...]]()
    for axis in axes:
        last = groups[-1][-1] if groups else None
        if last and all(_follows(last, axis, workload.tensors[r.tensor], r) for r in every):
            groups[-1] += (axis,)
        else:
            groups.append((axis,))
    return groups


def _follows(outer: Axis, inner: Axis, tensor: Tensor, read: Read) -> bool:
    strides = dict[str, int]()
    for form, stride in zip(read.index, tensor.strides, strict=True):
        for name in form.axes:
            if name in strides or form.single is None:
                strides[name] = -1
            else:
                strides[name] = stride
    first, second = strides.get(outer.name), strides.get(inner.name)
    if first is None and second is None:
        return True
    return (
        None not in (first, second)
        and -1 not in (first, second)
        and (
            first == second * inner.extent  # type: ignore[operator]  # neither is None
        )
    )


def powers(low: int, high: int, extent: int) -> tuple[int, ...]:
    """Return the powers of two from ``low`` to ``high`` of which at most half is padding."""
    most = max(low, access_width(extent))
    return tuple(1 << e for e in range(31) if low <= 1 << e <= min(high, most))


def reduced_later(workload: Workload) -> str | None:
    """Return the sentence that refuses a workload which reduces twice, if it does."""
    for stage in workload.stages[1:]:
        if stage.reducer:
            return (
                f"it reduces twice, into {workload.stages[0].output!r} and then into "
                f"{stage.output!r}; one reduction a kernel is what these rules know"
            )
    return None
