"""What the analytic model alone would try: its best schedules, spread over sketches and blocks.

Knows nothing of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.grid import Codes, Grid
from autosched.tune.population import Population, scored
from cost_model.analytic_model import AnalyticModel
from search_space.target import Target

#: The choices by which candidates of one sketch count as alike.
BLOCK = ("tile_m", "tile_n", "tile_k", "split")
#: Sketches predicted to be within this factor of the best get a place in the first batch.
WITHIN = 1.3


class Analytic:
    """Scores of the analytic model for codes of grids: log efficiency, higher is better."""

    def __init__(self, target: Target) -> None:
        self._model = AnalyticModel()
        self._target = target

    def __call__(self, grid: Grid, codes: Codes) -> NDArray[np.float64]:
        """Return the scores [codes]."""
        return self._model.score(grid.sketch, grid.values(codes), self._target)


def shortlist(
    grids: Sequence[Grid], score: Analytic, rng: Generator, blocks: int, each: int = 1
) -> Population:
    """Return the best of the ``blocks`` best blocks of every sketch, ``each`` of a block, best
    first."""
    best: list[Codes] = []
    for grid in grids:
        codes = grid.survey(rng)
        scores = score(grid, codes) if len(codes) else np.zeros(0)
        codes = codes[np.argsort(-scores, kind="stable")]
        best.append(_spread(codes, grid.values_of(codes, BLOCK), blocks, each))
    return scored(grids, best, score).ranked


def best_of_sketches(ranked: Population) -> NDArray[np.int64]:
    """Return the row of the best of each sketch that is nearly as good as the best of all."""
    rows = [int(np.flatnonzero(ranked.grids == n)[0]) for n in dict.fromkeys(ranked.grids.tolist())]
    near = [row for row in rows if ranked.scores[row] >= ranked.scores[0] - math.log(WITHIN)]
    return np.array(near, np.int64)


def _spread(codes: Codes, held: NDArray[np.int64], blocks: int, each: int) -> Codes:
    """Return the first ``each`` codes of each of the first ``blocks`` rows of ``held`` that are
    different."""
    _, first, group = np.unique(held, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[group.ravel()]
    order = np.lexsort((np.arange(len(codes)), rank))
    starts = np.searchsorted(rank[order], rank[order])
    turn = np.arange(len(codes)) - starts
    kept = order[(rank[order] < blocks) & (turn < each)]
    return np.asarray(codes[np.sort(kept)])
