"""From a program's number to the grid axes it stands for. Writes only that part of a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosched.codegen.scope import Scope
from search_space.limits import GRID_PROGRAMS
from search_space.nest import Nest
from search_space.refusal import IllegalStep


@dataclass(frozen=True)
class Programs:
    """How many points the grid has, and how many programs are started for them."""

    tiles: int
    count: int


def programs(nest: Nest) -> Programs:
    """Return the launch plan of a nest. Raises IllegalStep where its points cannot be counted.

    All of them lie along the first dimension of the grid: the others end at 65,535.
    """
    tiles = math.prod(nest.extents[axis] for axis in nest.grid)
    if tiles > GRID_PROGRAMS:
        raise IllegalStep(
            f"{nest.name}: the grid has {tiles} points, a kernel counts {GRID_PROGRAMS}"
        )
    if not nest.persistent:
        return Programs(tiles, tiles)
    return Programs(tiles, min(tiles, nest.multiprocessors * nest.per_multiprocessor))


def write_decode(scope: Scope, tile: str | None) -> None:
    """Write the assignments of the grid axes; ``tile`` names the point, else the program is it."""
    nest = scope.nest
    axes = [axis for axis in nest.grid if nest.extents[axis] > 1]
    if not axes:
        return
    if tile is None:
        tile = axes[0] if len(axes) == 1 else scope.names.fresh("program")
        scope.lines.add(f"{tile} = tl.program_id(0)")
    swizzled = nest.swizzle > 1 and axes[-2:] == list(nest.grid[-2:])
    plain, walked = (axes[:-2], axes[-2:]) if swizzled else (axes, [])
    total = rest = math.prod(nest.extents[axis] for axis in axes)
    for axis in plain:
        rest //= nest.extents[axis]
        text = f"{tile} // {rest}" if rest > 1 else tile
        text = f"{text} % {nest.extents[axis]}" if rest * nest.extents[axis] < total else text
        if text != axis:
            scope.lines.add(f"{axis} = {text}")
    if walked:
        _write_swizzle(scope, tile if rest == total else f"({tile} % {rest})", walked)


def _write_swizzle(scope: Scope, tile: str, axes: list[str]) -> None:
    outer, inner = axes
    extents, lines = scope.nest.extents, scope.lines
    extent, band = extents[outer], min(scope.nest.swizzle, extents[outer])
    width = band * extents[inner]
    if band == extent:
        lines.add(f"{outer} = {tile} % {extent}")
        lines.add(f"{inner} = {tile} // {extent}")
        return
    lines.add(f"# bands of {band} {outer}: programs that run together share operands in L2")
    first = scope.assign("first", f"{tile} // {width} * {band}")
    rows = str(band)
    if extent % band:
        rows = scope.assign("rows", f"tl.minimum({extent} - {first}, {band})")
    lines.add(f"{outer} = {first} + {tile} % {width} % {rows}")
    lines.add(f"{inner} = {tile} % {width} // {rows}")
