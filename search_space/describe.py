"""Read a scheduled contraction back: its structure and choices, as a sketch would state them.

So a schedule written by hand gets the same bounds, features and predicted time as one that the
search made, and what features say of choices can be held against the nest they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from search_space import access
from search_space.expr import reads
from search_space.nest import Nest, Via
from search_space.rules.box import Boxes, box_structure, boxes_of
from search_space.rules.flat import flat_structure, flats_of
from search_space.rules.peel import Rest, Side
from search_space.rules.role import (
    Blocking,
    Contraction,
    blocking,
    contraction,
    fused_blocking,
)
from search_space.rules.variant import Share, Variant, structure_of
from search_space.sketch import Structure
from search_space.workload import Axis, Workload


@dataclass(frozen=True)
class Description:
    """A contraction as scheduled: its structure, and every choice of ``sketch.CHOICES``; of a side
    with several axes the choices of these instead."""

    structure: Structure
    choices: dict[str, int]


def describe(workload: Workload, nests: Sequence[Nest]) -> Description | None:
    """Return the description of the nests of ``workload``; None where it is no contraction
    on the tensor cores."""
    roles, nest = contraction(workload), nests[0]
    if isinstance(roles, str) or not nest.tensorized:
        return None
    boxes = _boxes(workload, roles, nest)
    blocks = boxes.blocks if boxes else _blocks(workload, roles, nest)
    share: Share | None = None
    if nest.part:
        share = "counter" if nest.counter else "atomic" if nest.atomic else "workspace"
    variant = Variant(
        load=_load(nest, roles.a.tensor),
        store=nest.store,
        persistent=nest.persistent,
        split=share,
        swap=nest.swap,
        registers=nest.registers,
        pack_a=roles.a.tensor in nest.packed.values(),
        pack_b=roles.b.tensor in nest.packed.values(),
        turned=tuple(_turned(nest, blocks)),
        peel=_rest(nest, nests[1:], blocks),
        kind=_kind(nest, blocks, boxes),
    )
    if boxes:
        return Description(box_structure(boxes, variant), _box_choices(nest, boxes))
    structure = flat_structure if nest.views else structure_of
    return Description(structure(blocks, variant), _choices(nest, blocks))


def _kind(nest: Nest, blocks: Blocking, boxes: Boxes | None) -> str:
    if boxes:
        return "box"
    return "flat" if nest.views else "gather" if blocks.fused else "contraction"


def _boxes(workload: Workload, roles: Contraction, nest: Nest) -> Boxes | None:
    """Return the boxes that the copy engine brings in, if it reads through windows."""
    if not roles.windowed:
        return None
    boxes = boxes_of(workload, roles)
    is_read = not isinstance(boxes, str) and _load(nest, boxes.pixels.tensor) == "descriptor"
    return boxes if is_read and not isinstance(boxes, str) else None


def _blocks(workload: Workload, roles: Contraction, nest: Nest) -> Blocking:
    """Return the axes that the nest holds in blocks: as they are, or fused first."""
    flats = flats_of(workload, roles)
    for flat in flats if nest.views and not isinstance(flats, str) else ():
        if set(flat.blocks.fused) <= set(nest.extents):
            return flat.blocks
    for taps in (True, False):
        fused = fused_blocking(workload, roles, taps=taps)
        if isinstance(fused, Blocking) and fused.fused and set(fused.fused) <= set(nest.extents):
            return fused
    return blocking(workload, roles)


def _load(nest: Nest, tensor: str) -> Via:
    """Return how a tensor, its packed copy or a view comes on chip."""
    for name, via in nest.cache_reads.items():
        stored = nest.buffer(name)
        if nest.packed.get(stored, stored) == tensor:
            return via
    return "pointer"


def _turned(nest: Nest, blocks: Blocking) -> Iterator[Literal["a", "b"]]:
    """Yield the operands whose packed copies have M or N along their rows."""
    copies = {original: copy for copy, original in nest.packed.items()}
    rows = {read.tensor: read.index[-1].single for s in nest.statements for read in reads(s.value)}
    if rows.get(copies.get(blocks.roles.a.tensor, "")) == blocks.m.name:
        yield "a"
    if rows.get(copies.get(blocks.roles.b.tensor, "")) == blocks.n.name:
        yield "b"


def _rest(nest: Nest, others: Sequence[Nest], blocks: Blocking) -> Rest | None:
    """Return the end of the axis that another nest computes."""
    sides: tuple[tuple[Side, Axis], ...] = (("m", blocks.m), ("n", blocks.n))
    for side, axis in sides:
        end = next((other for other in others if axis.name in other.peeled), None)
        if end and axis.name in nest.peeled:
            at = nest.extents[nest.peeled[axis.name]]
            m, n, k = (_held(end, x) for x in (blocks.m, blocks.n, blocks.k))
            return Rest(side, at, axis.extent - at, m, n, k, end.stages)
    return None


def _box_choices(nest: Nest, boxes: Boxes) -> dict[str, int]:
    held = _choices(nest, boxes.blocks)
    del held["tile_n" if boxes.last else "tile_m"]
    return held | {name: _held(nest, axis) for name, axis in boxes.along}


def _choices(nest: Nest, blocks: Blocking) -> dict[str, int]:
    return {
        "tile_m": _held(nest, blocks.m),
        "tile_n": _held(nest, blocks.n),
        "tile_k": _held(nest, blocks.k),
        "stages": nest.stages,
        "warps": nest.warps,
        "group": nest.swizzle,
        "parts": nest.parts,
        "split": nest.extents[nest.part] if nest.part else 1,
        "ctas": max(1, nest.per_multiprocessor),
    }


def _held(nest: Nest, axis: Axis) -> int:
    """Return how many steps of ``axis`` a block holds."""
    tiled = access.tile_axes_in(nest, nest.resolve(axis.name))
    return math.prod(nest.extents[name] for name in tiled)
