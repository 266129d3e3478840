"""The nest that writes what no point of the main one reaches: every element, before it runs.

No choices are left open: it stores as fast as memory takes it. Rules build sketches as if there
were no such nest, and ``filled`` adds its steps to what they found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from search_space.nest import initial_nests
from search_space.sketch import Sketch
from search_space.steps import Bind, Fuse, Split, Step, Tile, Warps
from search_space.workload import Workload

#: Elements of one block: 8 for each thread of four warps.
BLOCK = 1024
#: The place of the nest among those of ``initial_nests``.
NEST = 1


def filled(sketch: Sketch, workload: Workload) -> Sketch:
    """Return ``sketch``, built for ``workload`` without ``elsewhere``, as one of ``workload``."""
    moved = (replace(step, nest=step.nest + (step.nest >= NEST)) for step in sketch.steps)
    return replace(sketch, workload=workload, steps=(*fill_steps(workload), *moved))


def fill_steps(workload: Workload) -> Iterator[Step]:
    """Yield the steps of the filling nest: the output flattened, in blocks on the grid."""
    nest = initial_nests(workload)[NEST]
    names = [axis.name for axis in nest.axes]
    total = math.prod(axis.extent for axis in nest.axes)
    flat, outer, inner = _fresh(names, "flat"), _fresh(names, "block"), _fresh(names, "element")
    if len(names) > 1:
        yield Fuse(tuple(names), flat, nest=NEST)
    block = min(BLOCK, 1 << max(0, total - 1).bit_length())
    yield Split(flat if len(names) > 1 else names[0], outer, inner, block, nest=NEST)
    yield Tile(((inner,),), nest=NEST)
    yield Bind((outer,), nest=NEST)
    yield Warps(4, nest=NEST)


def _fresh(names: list[str], wish: str) -> str:
    while wish in names:
        wish += "_"
    return wish
