"""Windows without a product of blocks: every tap a multiply-add on vectors, taps unrolled.

It suits what has few products for each element that it reads: convolutions of few channels or of
each channel by itself, and pools. Offsets and tests of a tap are numbers, and rows loaded for one
tap serve the next. Where channels lie last, lanes run along them; else along the pixels of a
plane, and a program computes several rows or several outputs of what it has loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from search_space.expr import Affine, Read, reads
from search_space.rules.plain import (
    WARPS,
    Plan,
    legal_sketches,
    powers,
    reduced_later,
)
from search_space.rules.role import contraction
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Axis, Workload

#: Points that one output reduces at the most, and those of one tap, where blocks can be multiplied
#: as well; and statements of one turn that are unrolled.
MOST_POINTS, MOST_CHANNELS = 256, 8
MOST_STATEMENTS = 256
#: Points of a reduction that are unrolled; reduced axes further out are loops.
UNROLLED_POINTS = 64
#: Rows, and outputs that read the same elements, which a program may compute together.
ROWS, OUTPUTS = (1, 2, 4), (1, 4, 8)
MOST_COPIES = 16
#: Rows and columns of pixels that a program may compute together where channels lie last.
PATCH = (1, 2, 4)


def direct_sketches(workload: Workload, _target: Target) -> tuple[Sketch, ...] | str:
    """Return the sketches, or one sentence on why none applies."""
    stage = workload.stages[0]
    if not stage.reducer:
        return "nothing is reduced"
    if sentence := reduced_later(workload):
        return sentence
    if not _moved(workload):
        return "nothing is read or stored through a window"
    if not isinstance(contraction(workload), str) and (sentence := _large(workload)):
        return sentence
    return legal_sketches(_plans(workload)) or "no schedule is legal"


def _large(workload: Workload) -> str | None:
    """Return the sentence that refuses what had better be a product of blocks, if it is large."""
    reduced = [axis for axis in workload.axes if axis.kind == "reduction"]
    points = math.prod(axis.extent for axis in reduced)
    channels = math.prod(a.extent for a in reduced if a.name not in _moved(workload))
    if points > MOST_POINTS:
        return f"it reduces {points} points for each output, more than the {MOST_POINTS} that pay"
    if channels > MOST_CHANNELS:
        return f"each tap sums {channels} products, more than the {MOST_CHANNELS} that pay"
    return None


def _plans(workload: Workload) -> Iterator[Plan]:
    spatial = tuple(axis for axis in workload.axes if axis.kind == "spatial")
    moved = _moved(workload)
    inner = [form.axes for form in workload.stages[-1].index[-1:]]
    if moved.isdisjoint(*inner):
        yield from _channels_last(workload, spatial)
        return
    planes = [axis for axis in spatial if axis.name in moved]
    over = [axis for axis in spatial if axis not in planes and axis.extent > 1]
    own = {name for form in _largest(workload).index for name in form.axes}
    tried = list[dict[str, int]]()
    for rows, outputs in product(ROWS, OUTPUTS):
        repeats = dict[str, int]()
        if rows > 1 and len(planes) > 1 and rows < 2 * planes[-2].extent:
            repeats[planes[-2].name] = rows
        absent = [axis for axis in over if axis.name not in own]
        if outputs > 1 and absent:
            repeats[absent[-1].name] = min(outputs, absent[-1].extent)
        if repeats in tried or math.prod(repeats.values()) > MOST_COPIES:
            continue
        tried.append(repeats)
        yield from _rows_of_pixels(workload, tuple(planes), over, repeats)


def _rows_of_pixels(
    workload: Workload, planes: tuple[Axis, ...], over: list[Axis], repeats: dict[str, int]
) -> Iterator[Plan]:
    loops, unrolled = _loops(workload, math.prod(repeats.values()))
    beside = [axis for axis in over if axis.name not in repeats]
    pixels = math.prod(axis.extent for axis in planes)
    words = [f"rows{n}" for a, n in repeats.items() if a in {p.name for p in planes}]
    words += [f"outputs{n}" for a, n in repeats.items() if a not in {p.name for p in planes}]
    name = ".".join(["direct.pixels", *words])
    domains = {"tile_n": powers(32, 1024, pixels), "warps": WARPS}
    m = tuple(beside[-1:])
    if m:
        domains = {"tile_m": powers(1, 8, m[0].extent), **domains}
    yield Plan(
        name,
        workload,
        domains,
        m=m,
        n=planes,
        repeats=repeats,
        loops=loops,
        unrolled=unrolled,
    )


def _channels_last(workload: Workload, spatial: tuple[Axis, ...]) -> Iterator[Plan]:
    moved = _moved(workload)
    n = list[Axis]()
    for axis in reversed(spatial):
        if axis.name in moved:
            break
        n.insert(0, axis)
    channels = tuple(axis for axis in n if axis.extent > 1) or spatial[-1:]
    m = tuple(axis for axis in spatial if axis not in channels and axis.extent > 1)
    domains = {
        "tile_n": powers(4, 256, math.prod(axis.extent for axis in channels)),
        "warps": WARPS,
    }
    if m:
        pixels = powers(1, 256, math.prod(axis.extent for axis in m))
        domains = {"tile_m": pixels, **domains}
    packed = _turned(workload, channels[-1])
    for repeats in _patches([axis for axis in m if axis.name in moved]):
        loops, unrolled = _loops(workload, math.prod(repeats.values()))
        sides = zip(("columns", "rows"), reversed(repeats.values()), strict=False)
        words = [f"{side}{count}" for side, count in sides if count > 1]
        name = ".".join(["direct.channels", *words[::-1]])
        plan = Plan(
            name,
            workload,
            domains,
            m=m,
            n=channels,
            repeats={axis: count for axis, count in repeats.items() if count > 1},
            loops=loops,
            unrolled=unrolled,
        )
        yield plan
        if packed:
            yield replace(plan, name=f"{name}.packed", packed=packed)


def _patches(planes: list[Axis]) -> Iterator[dict[str, int]]:
    """Yield how many rows and columns of pixels a program may compute together: windows of
    neighbours share what they load."""
    sides = planes[-2:]
    for counts in product(PATCH, repeat=len(sides)):
        if all(c == 1 or c < 2 * axis.extent for c, axis in zip(counts, sides, strict=True)):
            yield {axis.name: count for axis, count in zip(sides, counts, strict=True)}


def _turned(workload: Workload, lane: Axis) -> dict[str, tuple[int, ...]]:
    """Return the inputs read at plain axes alone whose rows do not run along the lanes, and the
    order of their dimensions in which they do."""
    orders = dict[str, tuple[int, ...]]()
    for read in reads(workload.stages[0].value):
        axes = [form.single for form in read.index]
        if None in axes or lane.name not in axes or axes[-1] == lane.name:
            continue
        last = axes.index(lane.name)
        orders[read.tensor] = (*(d for d in range(len(axes)) if d != last), last)
    return orders


def _loops(workload: Workload, copies: int) -> tuple[tuple[Axis, ...], tuple[str, ...]]:
    """Return the reduced axes as loops, and those of them that are unrolled, innermost first."""
    loops = tuple(axis for axis in workload.axes if axis.kind == "reduction")
    unrolled, points = list[str](), 1
    for axis in reversed(loops):
        points *= axis.extent
        if points > UNROLLED_POINTS or points * copies > MOST_STATEMENTS:
            break
        unrolled.append(axis.name)
    return loops, tuple(unrolled)


def _largest(workload: Workload) -> Read:
    """Return the largest of what is read, through windows if anything is."""
    found = reads(workload.stages[0].value)
    through = [read for read in found if _several(read.index)]
    return max(through or found, key=lambda read: workload.tensors[read.tensor].elements)


def _moved(workload: Workload) -> set[str]:
    """Return the axes along which windows move: those that share an index with another one, where
    something is read or stored."""
    through = _several(_largest(workload).index)
    return through | _several(workload.stages[-1].index)


def _several(index: tuple[Affine, ...]) -> set[str]:
    """Return the axes that occur with others in one form of ``index``."""
    return {name for form in index if len(form.terms) > 1 for name in form.axes}
