"""The end of an axis in a nest of its own: where that saves a wave, and how the nest runs.

A last row of blocks that holds a few rows of a block costs as much as any other, and a whole wave
where it is the one that passes a multiple of the multiprocessors. The nest of the rest leaves no
choices open: it reads one operand whole and computes little, so what counts is that enough of it
is in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
#: Blocks of large products, by which waves are counted.
BLOCKS = ((128, 256), (256, 128), (128, 128))
#: A nest of more rows than this is no rest: it computes as much as it saves.
LARGEST_REST = 64
#: Bytes of K that a block of the rest holds, and of loads that one program keeps in flight.
DEPTH_BYTES = 128
RING_BYTES = 72 * 1024
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


def pays_to_peel(blocks: Blocking, side: Side, target: Target) -> bool:
    """Whether whole blocks alone would take fewer waves, by one way to cut the output at least."""
    axis = _axis(blocks, side)
    rest = axis.extent % WHOLE
    if not 0 < rest <= LARGEST_REST or axis.extent < WHOLE or axis in blocks.roles.whole:
        return False
    batch = extent_of(blocks.others)
    extents = (blocks.m.extent, blocks.n.extent)
    cut = (extents[0] - rest, extents[1]) if side == "m" else (extents[0], extents[1] - rest)
    whole = [b for b in BLOCKS if (axis.extent - rest) % b["mn".index(side)] == 0]
    return any(
        _waves(batch, cut, block, target) < _waves(batch, extents, block, target) for block in whole
    )


def _waves(batch: int, extents: tuple[int, int], block: tuple[int, int], target: Target) -> int:
    tiles = batch * -(-extents[0] // block[0]) * -(-extents[1] // block[1])
    return -(-tiles // target.multiprocessors)


def rest_of(blocks: Blocking, side: Side, target: Target) -> Rest:
    """Return the end of an axis past its last whole block and the blocks that it is computed in:
    as large across it as leaves every multiprocessor one."""
    axis, across = _axis(blocks, side), blocks.n if side == "m" else blocks.m
    at = axis.extent // WHOLE * WHOLE
    along = max(16, _power_above(axis.extent - at))
    width, batch = 128, extent_of(blocks.others)
    while width > 32 and batch * -(-across.extent // width) < target.multiprocessors:
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
        yield Guard(names[m], "wrap", nest=1)
        yield Guard(names[n], "wrap", nest=1)
    for tensor in (blocks.a, blocks.b):
        yield CacheRead(tensor.name, load, nest=1)
    yield Tensorize(rest.swap, nest=1)
    yield Pipeline(rest.stages, nest=1)
    yield Warps(4, nest=1)


def _axis(blocks: Blocking, side: Side) -> Axis:
    return blocks.m if side == "m" else blocks.n


def _power_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
