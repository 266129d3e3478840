"""What did well for the workloads most like one, as schedules of its own space.

A workload is like another if it differs in extents alone: the same axes, dtypes, order of
dimensions in memory, formulas and precision. How far it is are the doublings between extents. Knows
no log: whoever reads one hands over observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from autosched.tune.candidate import Key
from autosched.tune.grid import Grid
from cost_model.dataset import Observation
from search_space.workload import Tensor, Workload

#: Workloads that are taken as nearest, and schedules of each.
WORKLOADS, SCHEDULES = 2, 16


def nearest(
    observations: Iterable[Observation],
    grids: Sequence[Grid],
    *,
    workloads: int = WORKLOADS,
    schedules: int = SCHEDULES,
) -> tuple[Key, ...]:
    """Return schedules of ``grids`` like the ``schedules`` fastest of each of the ``workloads``
    nearest to theirs, the fastest of each first.

    A schedule goes over to the sketch of the same name, there to the legal choices that are the
    fewest doublings away. One whose sketch is not here is dropped, and none takes its place: where
    the fastest are of another kind, because rows are aligned there and not here, those of the same
    kind took 2 to 20 times the best in place of them (between the landscapes "odd" and "square").
    Observations of this very workload count as the nearest.
    """
    here = grids[0].sketch.workload
    held: dict[str, list[Observation]] = {}
    for one in observations:
        if one.latency_us is not None and structure(one.sketch.workload) == structure(here):
            held.setdefault(one.sketch.workload.key, []).append(one)
    near = sorted(held.values(), key=lambda of: _rank(here, of[0].sketch.workload))
    best = [_fastest(of)[:schedules] for of in near[:workloads]]
    transfer = _Transfer(grids)
    found = (transfer.key(one) for turn in zip_longest(*best) for one in turn if one is not None)
    return tuple(dict.fromkeys(key for key in found if key is not None))


def structure(workload: Workload) -> str:
    """Return what ``workload`` is beside its extents, as text that no name has a part in."""
    lines = workload.canonical.splitlines()
    kinds = " ".join(axis.kind for axis in workload.axes)
    tensors = " ".join(_layout(tensor) for tensor in workload.tensors.values())
    formulas = (line for line in lines if re.match(r"T\d+\[|elsewhere ", line))
    return "\n".join((kinds, tensors, *map(_without_offsets, formulas), workload.precision))


def distance(one: Workload, other: Workload) -> float:
    """Return the doublings between the extents of two workloads of equal structure."""
    a, b = (np.log2([axis.extent for axis in held.axes]) for held in (one, other))
    return float(np.abs(a - b).sum())


def _rank(here: Workload, other: Workload) -> tuple[bool, float, str]:
    return other.key != here.key, distance(here, other), other.key


def _layout(tensor: Tensor) -> str:
    """Return dtype, the order of dimensions from the innermost, repeated ones, and constancy."""
    order = sorted(range(len(tensor.shape)), key=lambda d: (tensor.strides[d], -d))
    repeated = [d for d in order if tensor.strides[d] == 0]
    return f"{tensor.dtype}{order}{repeated}{tensor.constant}"


def _without_offsets(line: str) -> str:
    """Drop the constants of indices: padding is an offset, and no other formula."""
    return re.sub(r"\[[^\]]*\]", lambda found: re.sub(r"\+-?\d+(?=[,\]])", "", found[0]), line)


def _fastest(observations: Iterable[Observation]) -> list[Observation]:
    def rank(one: Observation) -> tuple[float, str, tuple[int, ...]]:
        values = tuple(one.choices[name] for name in one.sketch.names)
        return one.latency_us or 0.0, one.sketch.name, values

    return sorted(observations, key=rank)


class _Transfer:
    """Finds the legal schedules most like others. Looks at each grid once."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self._grids: Mapping[str, Grid] = {grid.sketch.name: grid for grid in grids}
        self._values: dict[str, np.ndarray] = {}

    def key(self, one: Observation) -> Key | None:
        """Return the schedule most like an observed one; None where its sketch is not here, or
        has nothing legal."""
        grid = self._grids.get(one.sketch.name)
        if grid is None:
            return None
        shared = [n for n, name in enumerate(grid.sketch.names) if name in one.choices]
        wished = [one.choices[grid.sketch.names[n]] for n in shared]
        values = self._all(grid)
        if not len(values):
            return None
        doublings = np.log2(1.0 + values[:, shared]) - np.log2(1.0 + np.array(wished))
        away = np.abs(doublings).sum(axis=1)
        return grid.sketch.name, tuple(int(v) for v in values[int(np.argmin(away))])

    def _all(self, grid: Grid) -> np.ndarray:
        """Return the legal choices that a survey finds [schedules, choices]."""
        name = grid.sketch.name
        if name not in self._values:
            self._values[name] = grid.values(grid.survey(np.random.default_rng(0)))
        return self._values[name]
