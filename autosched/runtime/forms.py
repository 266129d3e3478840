"""Canonical texts without their extents: what a family of workloads has in common. Data only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from search_space.workload import contiguous_strides

_AXIS = re.compile(r"i\d+=(\d{1,13}):(?:spatial|reduction)")
_TENSOR = re.compile(r" shape=\[((?:\d{1,13},?)*)\] strides=\[((?:\d{1,13},?)*)\]")


@dataclass(frozen=True, slots=True)
class Form:
    """A canonical text with its extents and shapes blanked out, and the extents of its axes.

    Two workloads of one text differ in extents alone.
    """

    text: str
    extents: tuple[int, ...]


def form_of(canonical: str) -> Form | None:
    """Return the form of a canonical text; None where a tensor has gaps, or no axes are said.

    The text may come from a log, and is data: whoever relies on a form checks what it makes.
    """
    axes, _, rest = canonical.partition("\n")
    extents = tuple(int(extent) for extent in _AXIS.findall(axes))
    if not extents or not axes.startswith("axes "):
        return None
    for shape, strides in _TENSOR.findall(rest):
        held = tuple(int(n) for n in shape.split(",") if n)
        if tuple(int(n) for n in strides.split(",") if n) != contiguous_strides(held):
            return None
    kinds = re.sub(r"=\d{1,13}:", "=?:", axes)
    return Form(f"{kinds}\n{_TENSOR.sub(' dense', rest)}", extents)
