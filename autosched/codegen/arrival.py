"""Programs that share a reduction count themselves; the last of them goes on alone.

Every program stores its share, then adds one to the counter of its point of the grid. The
barrier before puts the stores of all threads before the addition, which releases them to the
whole GPU; whoever reads the full count has acquired the stores of all (PTX ISA, memory
consistency model: causality order through a barrier and a release pattern). It sets the counter
back to zero, so that the next run finds it as this one did.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosched.codegen.scope import Scope
from autosched.codegen.text import index_text
from search_space.index import Index, variable
from search_space.nest import Nest


@contextmanager
def last_to_arrive(scope: Scope) -> Iterator[None]:
    """Open the block that only the last program of a point runs."""
    nest = scope.nest
    scope.lines.add(f"# the last of {nest.extents[nest.part]} {nest.part} to arrive joins them")
    counter = scope.pointer(nest.counter)
    point = index_text(_point(nest), str)
    place = counter if point == "0" else scope.assign(f"{counter}_at", f"{counter} + {point}")
    scope.lines.add("tl.debug_barrier()")
    before = scope.assign("before", f'tl.atomic_add({place}, 1, sem="acq_rel")')
    with scope.lines.block(f"if {before} == {nest.extents[nest.part] - 1}:"):
        yield
        scope.lines.add(f"tl.store({place}, 0)")


def points(nest: Nest) -> int:
    """Return how many points of the grid count their programs: all but for the shares."""
    count = 1
    for axis in nest.grid:
        count *= nest.extents[axis] if axis != nest.part else 1
    return count


def _point(nest: Nest) -> Index:
    """Return the number of a program's point, whichever its share."""
    index = Index()
    for axis in nest.grid:
        if axis != nest.part and nest.extents[axis] > 1:
            index = index.scale(nest.extents[axis]) + variable(axis)
    return index
