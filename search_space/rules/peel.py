"""The end of an axis in a nest of its own: where that saves a wave, and how the nest runs.

A last row of blocks that holds a few rows of a block costs as much as any other, and a whole wave
where it is the one that passes a multiple of the multiprocessors. So does a last wave of few
blocks; in smaller blocks, spread over all multiprocessors, it takes about half the time. The nest
of the rest leaves no choices open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from search_space import access
from search_space.dtype import size_bytes
from search_space.rules.role import Blocking, extent_of
from search_space.steps import (
    Bind,
    CacheRead,
    Fuse,
    Guard,
    Order,
    Peel,
    Pipeline,
    Split,
    Step,
    Tensorize,
    Tile,
    Warps,
)
from search_space.target import Target
from search_space.workload import Axis

Side = Literal["m", "n"]
SIDES: tuple[Side, ...] = ("m", "n")

#: Where an axis is cut: at the last whole block of this many elements.
WHOLE = 128
#: Blocks of large products, by which waves are counted, and what a wave of each costs. Half the
#: elements take a little more than half the time: they load more for each product.
BLOCKS = {(128, 256): 1.0, (256, 128): 1.0, (128, 128): 0.53}
#: A rest of at most so many rows reads one operand and computes next to nothing.
NARROW_REST = 64
#: Time of such a rest in waves of the body, and of a wider one for each of its own waves: a block
#: of half the elements, alone on its multiprocessor.
NARROW_WAVES, WIDE_WAVES = 0.25, 0.6
#: Share of the waves that must be left to make a launch more worth while.
SAVING = 0.98
#: Bytes of K that a block of the rest holds, and of loads that one program keeps in flight.
DEPTH_BYTES = 128
RING_BYTES = 100 * 1024
STAGES = 6


@dataclass(frozen=True, slots=True)
class Rest:
    """The end of an axis from ``at`` on: ``extent`` elements, in blocks of ``tile_m`` x ``tile_n``
    x ``tile_k`` elements with ``stages`` loads in flight."""

    side: Side
    at: int
    extent: int
    tile_m: int
    tile_n: int
    tile_k: int
    stages: int

    @property
    def swap(self) -> bool:
        """Whether the product is computed transposed: its columns alone fill a wgmma."""
        return self.tile_m < 64 <= self.tile_n


def rest_of(blocks: Blocking, side: Side, target: Target) -> Rest | None:
    """Return the end of an axis that is best computed apart, or None where that saves too little.

    Two ends are considered: what is left of the last whole block, and what would run in a last
    wave that leaves most multiprocessors idle.
    """
    axis = _axis(blocks, side)
    if axis.extent < WHOLE or axis in blocks.roles.whole:
        return None
    extents = (blocks.m.extent, blocks.n.extent)
    batch = extent_of(blocks.others)
    whole = min(_waves(batch, extents, block, target) for block in BLOCKS)
    best, least = 0, SAVING * whole
    for at in sorted({axis.extent // WHOLE * WHOLE, *_wave_ends(batch, extents, side, target)}):
        if not 0 < at < axis.extent:
            continue
        cut = (at, extents[1]) if side == "m" else (extents[0], at)
        blocks_there = [b for b in BLOCKS if at % b["mn".index(side)] == 0]
        if not blocks_there:
            continue
        body = min(_waves(batch, cut, block, target) for block in blocks_there)
        waves = body + _rest_waves(batch, extents, side, at, target)
        if waves < least:
            best, least = at, waves
    return _rest(blocks, side, best, target) if best else None


def _wave_ends(batch: int, extents: tuple[int, int], side: Side, target: Target) -> Iterator[int]:
    """Yield where the blocks of an axis stop filling whole waves, by every way to cut it."""
    along = "mn".index(side)
    for block in BLOCKS:
        across = batch * -(-extents[1 - along] // block[1 - along])
        full = extents[along] // block[along] * across // target.multiprocessors
        yield full * target.multiprocessors // across * block[along]


def _waves(batch: int, extents: tuple[int, int], block: tuple[int, int], target: Target) -> float:
    """Count waves, in those of the largest blocks."""
    tiles = batch * -(-extents[0] // block[0]) * -(-extents[1] // block[1])
    return -(-tiles // target.multiprocessors) * BLOCKS[block]


def _rest_waves(batch: int, extents: tuple[int, int], side: Side, at: int, target: Target) -> float:
    """Estimate the time of the nest of the rest, in waves of the body's blocks."""
    along = "mn".index(side)
    rest, across = extents[along] - at, extents[1 - along]
    if rest <= NARROW_REST:
        return NARROW_WAVES
    tiles = batch * -(-rest // WHOLE) * -(-across // WHOLE)
    return WIDE_WAVES * -(-tiles // target.multiprocessors)


def _rest(blocks: Blocking, side: Side, at: int, target: Target) -> Rest:
    """Return the rest and its blocks: as large across it as leaves every multiprocessor one."""
    axis, across = _axis(blocks, side), blocks.n if side == "m" else blocks.m
    along = min(WHOLE, max(16, _power_above(axis.extent - at)))
    width, batch = WHOLE, extent_of(blocks.others)
    wide = axis.extent - at > NARROW_REST
    while not wide and width > 32 and batch * -(-across.extent // width) < target.multiprocessors:
        width //= 2
    element = size_bytes(blocks.a.dtype)
    tile_k = max(16, min(DEPTH_BYTES // element, _power_above(blocks.k.extent)))
    stage_bytes = tile_k * (along + width) * element
    turns = extent_of(blocks.roles.k) // tile_k
    stages = max(1, min(STAGES, RING_BYTES // stage_bytes, turns))
    tile_m, tile_n = (along, width) if side == "m" else (width, along)
    return Rest(side, at, axis.extent - at, tile_m, tile_n, tile_k, stages)


def peel_step(blocks: Blocking, rest: Rest) -> Peel:
    """Return the step that cuts the axis."""
    axis = _axis(blocks, rest.side)
    return Peel(axis.name, blocks.name(axis, "_body"), blocks.name(axis, "_rest"), rest.at)


def rest_steps(
    blocks: Blocking, rest: Rest, load: Literal["pointer", "descriptor"]
) -> Iterator[Step]:
    """Yield the steps of nest 1, which computes the rest."""
    m, n, k = blocks.m, blocks.n, blocks.k
    names = {axis: axis.name for axis in (m, n, k)}
    names[_axis(blocks, rest.side)] = peel_step(blocks, rest).rest
    outer = {axis: blocks.name(axis, "0") for axis in (m, n, k)}
    inner = {axis: blocks.name(axis, "1") for axis in (m, n, k)}
    for axis, tile in ((m, rest.tile_m), (n, rest.tile_n), (k, rest.tile_k)):
        yield Split(names[axis], outer[axis], inner[axis], tile, nest=1)
    loop = outer[k]
    outer_k = tuple(axis.name for axis in blocks.roles.k if axis != k)
    if outer_k:
        loop = blocks.name(k, "_all")
        yield Fuse((*outer_k, outer[k]), loop, nest=1)
    yield Tile(((inner[m],), (inner[n],), (inner[k],)), nest=1)
    others = tuple(axis.name for axis in blocks.others)
    yield Bind((*others, outer[m], outer[n]), nest=1)
    yield Order((loop,), nest=1)
    if load == "pointer":
        yield Guard(names[m], access.guard_mode(blocks.a, blocks.roles.a, m), nest=1)
        yield Guard(names[n], access.guard_mode(blocks.b, blocks.roles.b, n), nest=1)
    for tensor in (blocks.a, blocks.b):
        yield CacheRead(tensor.name, load, nest=1)
    yield Tensorize(rest.swap, nest=1)
    yield Pipeline(rest.stages, nest=1)
    yield Warps(4, nest=1)


def _axis(blocks: Blocking, side: Side) -> Axis:
    return blocks.m if side == "m" else blocks.n


def _power_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
