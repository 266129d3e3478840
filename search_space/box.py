"""Boxes of pixels, the sides of a block that are made of several axes: how large they may be.

Arithmetic on choices alone, for one candidate or for a column of them, as in ``limits``.
"""

from __future__ import annotations

from search_space.case import Case, Number

#: Pixels of a box: the narrowest dot that keeps tensor cores busy, and the widest that a wgmma has.
BOX_PIXELS = (16, 256)
#: How much larger than its side of the output all boxes together may be.
BOX_WASTE = 2


def _box_sides(case: Case) -> list[tuple[Number, Number, int, int]]:
    """Return pixels of a box, boxes, extent and least pixels of each side made of several axes."""
    s, least = case.structure, case.least
    found = [
        (case.tile_m, case.tiles_m, s.m, least.get("tile_m", 1), s.m_sides),
        (case.tile_n, case.tiles_n, s.n, least.get("tile_n", 1), s.n_sides),
    ]
    return [side[:4] for side in found if side[4]]


def box_pixels(case: Case) -> Number:
    """Return the pixels of a box; 0 where no side has several axes."""
    return sum(pixels for pixels, _, _, _ in _box_sides(case))


def odd_box(case: Case) -> Number:
    """Whether a box has too few pixels, or more than a dot has columns."""
    low, high = BOX_PIXELS
    refused = case.tile_m < 0
    for pixels, _, _, _ in _box_sides(case):
        refused = refused | (pixels > high) | (pixels < low)
    return refused


def wasted_box(case: Case) -> Number:
    """Whether boxes hold far more pixels than there are, and smaller ones exist."""
    refused = case.tile_m < 0
    for pixels, boxes, extent, least in _box_sides(case):
        is_least = pixels <= max(least, BOX_PIXELS[0])
        refused = refused | ((pixels * boxes >= BOX_WASTE * extent) & ~is_least)
    return refused
