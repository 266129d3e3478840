"""Reductions that are no product of blocks: rows, columns or all of a tensor, in one pass or two.

Reduced dimensions that lie side by side are fused. Threads keep a sum or a maximum for every
element that they load at a time, and exchange them once at the end. Long reductions of few outputs
are shared by programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from search_space.expr import Read, reads
from search_space.rules.plain import (
    WARPS,
    Plan,
    Share,
    legal_sketches,
    powers,
    reduced_later,
    runs,
)
from search_space.rules.role import contraction
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Axis, Workload

Group = tuple[Axis, ...]

#: Elements of a row, or rows, that a program reduces at the least where programs share them.
LEAST_SHARE, LEAST_ROWS = 4096, 64
SPLIT = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: Programs for each multiprocessor from which on sharing brings nothing.
ENOUGH_PROGRAMS = 16


def reduction_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return the sketches, or one sentence on why none applies."""
    stage = workload.stages[0]
    if not stage.reducer or not any(axis.kind == "reduction" for axis in workload.axes):
        return "nothing is reduced"
    if sentence := reduced_later(workload):
        return sentence
    for read in reads(stage.value):
        if not all(form.single for form in read.index):
            return f"{read.tensor!r} is read through a window"
        if len({form.single for form in read.index}) < len(read.index):
            return f"an axis occurs twice in the index of {read.tensor!r}"
    if any(not form.single for form in workload.stages[-1].index):
        return "it stores at other positions than plain axes"
    if not isinstance(contraction(workload), str):
        return "it is a product with an axis of its own in each operand and the output"
    return legal_sketches(_plans(workload, target)) or "no schedule is legal"


def _plans(workload: Workload, target: Target) -> Iterator[Plan]:
    kept = runs([a for a in workload.axes if a.kind == "spatial" and a.extent > 1], workload)
    reduced = runs([a for a in workload.axes if a.kind == "reduction"], workload)
    last = _last_axis(workload)
    k = next((g for g in reduced if g[-1].name == last), max(reduced, key=_extent))
    loops = tuple(axis for group in reduced if group != k for axis in group)
    along_k = k[-1].name == last
    m, n = _sides(workload, kept, last)
    points = math.prod(axis.extent for axis in workload.axes if axis.kind == "reduction")
    shares: list[Share | None] = [None]
    domains = dict[str, tuple[int, ...]]()
    if m:
        domains["tile_m"] = powers(1, 64, _extent(m))
    if n:
        domains["tile_n"] = powers(1, 64, _extent(n)) if along_k else powers(32, 2048, _extent(n))
    least = 8 if m and n else 64
    domains["tile_k"] = powers(least, 16384, _extent(k)) if along_k else powers(1, 128, _extent(k))
    domains["warps"] = WARPS
    outputs = workload.output.elements
    least = LEAST_SHARE if along_k else LEAST_ROWS
    split = tuple(s for s in SPLIT if s * least <= points and 2 * s <= _extent(k))
    if split and outputs < 128 * ENOUGH_PROGRAMS * target.multiprocessors:
        shares += ["counter", "workspace"]
        shares += ["atomic"] if workload.stages[0].reducer == "sum" else []
    for share in shares:
        name = f"reduction.split.{share}" if share else "reduction"
        own = {**domains, "split": split} if share else domains
        yield Plan(name, workload, own, m=m, n=n, k=k, loops=loops, split=share)


def _last_axis(workload: Workload) -> str | None:
    """Return the axis along which elements of the largest input lie side by side."""
    found = [r for r in reads(workload.stages[0].value) if r.tensor in _inputs(workload)]
    found.sort(key=lambda read: -workload.tensors[read.tensor].elements)
    for read in found:
        if read.index and workload.tensors[read.tensor].strides[-1] == 1:
            return read.index[-1].single
    return None


def _inputs(workload: Workload) -> set[str]:
    return {tensor.name for tensor in workload.inputs}


def _sides(workload: Workload, kept: list[Group], last: str | None) -> tuple[Group, Group]:
    """Return the kept axes that a block holds: one run of them, or two where no input has both."""
    if not kept:
        return (), ()
    held = [_axes(read) for read in reads(workload.stages[0].value)]
    *_, inner = kept
    for outer in reversed(kept[:-1]):
        both = {outer[-1].name, inner[-1].name}
        if not any(both <= axes for axes in held):
            return outer, inner
    along = next((group for group in kept if group[-1].name == last), None)
    if along:
        return (), along
    return max(kept, key=_extent), ()


def _axes(read: Read) -> set[str]:
    return {name for form in read.index for name in form.axes}


def _extent(axes: Group) -> int:
    return math.prod(axis.extent for axis in axes)
