"""The nest that writes what no class of an affine left side reaches: every element of the output,
before the others overwrite theirs. No choices left open: it only stores."""

from __future__ import annotations

from collections.abc import Iterator

from search_space.steps import Bind, Fuse, Split, Step, Tile, Warps
from search_space.workload import Workload

#: Elements that one program stores: 16 bytes a thread, a few times.
BLOCK = 2048
#: The number of its nest among those of a workload.
FILL = 1


def fill_steps(workload: Workload) -> Iterator[Step]:
    """Yield the steps of the nest: all dimensions of the output as one, in blocks."""
    axes = tuple(axis.name for axis in workload.element_axes)
    whole = axes[0]
    if len(axes) > 1:
        whole = "element"
        while whole in workload.extents or whole in workload.tensors:
            whole += "_"
        yield Fuse(axes, whole, FILL)
    yield Split(whole, f"{whole}_block", f"{whole}_beside", BLOCK, FILL)
    yield Tile(((f"{whole}_beside",),), FILL)
    yield Bind((f"{whole}_block",), nest=FILL)
    yield Warps(4, FILL)


def next_nest(workload: Workload) -> int:
    """Return the number of the first nest that steps append to those of ``workload``."""
    return FILL + (workload.elsewhere is not None)
