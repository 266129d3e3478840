"""Rows that are reduced and then read again, as norms and softmax do: a block holds them whole.

Each statement reads the row from registers: what it loads once more at the same place, the
compiler knows. So an element passes through memory once on its way in and once on its way out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from search_space.expr import reads
from search_space.rules.plain import WARPS, Plan, access_width, legal_sketches, powers, runs
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Axis, Stage, Workload

#: The longest row that a block holds.
LONGEST = 32768


def whole_sketches(workload: Workload, _target: Target) -> tuple[Sketch, ...] | str:
    """Return the sketches, or one sentence on why none applies."""
    reducing = [stage for stage in workload.stages if stage.reducer]
    if not reducing or not _reads_again(workload):
        return "nothing is reduced and read again"
    names = {frozenset(_reduced(stage)) for stage in reducing}
    if len(names) > 1:
        return "it reduces over different axes one after another"
    for read in (read for stage in workload.stages for read in reads(stage.value)):
        if not all(form.single for form in read.index):
            return f"{read.tensor!r} is read through a window"
    row = [axis for axis in workload.axes if axis.name in next(iter(names))]
    length = math.prod(axis.extent for axis in row)
    if length > LONGEST:
        return f"rows of {length} elements are longer than the {LONGEST} that a block holds"
    return legal_sketches(_plans(workload, row)) or "no schedule is legal"


def _plans(workload: Workload, row: list[Axis]) -> Iterator[Plan]:
    groups = runs(row, workload)
    if len(groups) > 1:
        return
    kept = runs([a for a in workload.axes if a not in row and a.extent > 1], workload)
    m = max(kept, key=lambda group: math.prod(a.extent for a in group), default=())
    width = access_width(math.prod(axis.extent for axis in row))
    side = "n" if row[0].kind == "spatial" else "k"
    domains = {f"tile_{side}": (width,), "warps": WARPS}
    if m:
        most = max(1, LONGEST // width)
        rows = powers(1, min(64, most), math.prod(axis.extent for axis in m))
        domains = {"tile_m": rows, **domains}
    n, k = (groups[0], ()) if side == "n" else ((), groups[0])
    yield Plan("whole", workload, domains, m=m, n=n, k=k)


def _reads_again(workload: Workload) -> bool:
    """Whether a stage after the first one that reduces runs over an axis that was reduced."""
    first, *later = workload.stages
    gone = _reduced(first) if first.reducer else set()
    return any(gone & _axes(stage) for stage in later)


def _reduced(stage: Stage) -> set[str]:
    return _axes(stage) - {name for form in stage.index for name in form.axes}


def _axes(stage: Stage) -> set[str]:
    forms = [form for read in reads(stage.value) for form in read.index]
    return {name for form in (*forms, *stage.index) for name in form.axes}
