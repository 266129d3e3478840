"""Candidates of several sketches with their scores, as flat arrays, bred for higher scores.

Knows a scoring function and nothing of where scores come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.grid import Codes, Grid

#: Scores the codes of one grid: [codes] -> [codes], higher is better.
Score = Callable[[Grid, Codes], NDArray[np.float64]]

#: What becomes of children that are illegal: the move is made again, or they are dropped.
Moves = Literal["legal", "rejection"]

#: Candidates that each sketch keeps whatever the others score.
KEPT_PER_SKETCH = 8


@dataclass(frozen=True)
class Population:
    """Different candidates: index of the grid, code and score, arrays [candidates]."""

    grids: NDArray[np.int64]
    codes: Codes
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ranked(self) -> Population:
        """The same, best first; ties by grid and code, so that order never depends on chance."""
        return self.take(np.lexsort((self.codes, self.grids, -self.scores)))

    @property
    def places(self) -> list[tuple[int, int]]:
        """The index of the grid and the code of each."""
        return list(zip(self.grids.tolist(), self.codes.tolist(), strict=True))

    @property
    def different(self) -> Population:
        """The same without repetitions; of equal ones the first stays."""
        held = np.stack([self.grids, self.codes], axis=1)
        _, first = np.unique(held, axis=0, return_index=True)
        return self.take(np.sort(first))

    def first(self, count: int) -> Population:
        """Return the first ``count``, or all if there are fewer."""
        return self.take(np.arange(min(count, len(self))))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Population:
        """Return the rows picked by index or mask."""
        return Population(self.grids[rows], self.codes[rows], self.scores[rows])


def scored(grids: Sequence[Grid], codes: Sequence[Codes], score: Score) -> Population:
    """Score codes given grid by grid; repeated ones count once."""
    unique = [np.unique(held) for held in codes]
    scores = [
        score(grid, held) if len(held) else np.zeros(0)
        for grid, held in zip(grids, unique, strict=True)
    ]
    index = [np.full(len(held), n, np.int64) for n, held in enumerate(unique)]
    return Population(np.concatenate(index), np.concatenate(unique), np.concatenate(scores))


@dataclass(frozen=True)
class Breeding:
    """How a population is bred: so many generations of ``size`` children.

    ``mutated`` and ``crossed`` are shares of the children of a generation; the rest is drawn
    afresh. Mutations are made ``times`` over.
    """

    size: int
    generations: int
    mutated: float = 0.6
    crossed: float = 0.3
    moves: Moves = "legal"
    times: int = 1

    def mutate(self, grid: Grid, codes: Codes, rng: Generator) -> Codes:
        """Return children that differ a little from ``codes``."""
        for _ in range(self.times):
            if self.moves == "legal":
                codes = grid.mutate(codes, rng)
            else:
                codes = grid.legal(grid.changed(codes, rng))
        return codes

    def cross(self, grid: Grid, first: Codes, second: Codes, rng: Generator) -> Codes:
        """Return children of two parents each."""
        if self.moves == "legal":
            return grid.crossover(first, second, rng)
        return grid.legal(grid.mixed(first, second, rng))


def breed(
    population: Population,
    grids: Sequence[Grid],
    score: Score,
    breeding: Breeding,
    rng: Generator,
) -> Population:
    """Return the best of ``population`` and of what it breeds, best first.

    Parents win a tournament of two. Children are mutated, crossed within a sketch, or drawn.
    """
    size = breeding.size
    for _ in range(breeding.generations):
        if not len(population):
            break
        children = _children(population, grids, breeding, rng)
        known = [population.codes[population.grids == n] for n in range(len(grids))]
        new = [np.setdiff1d(c, k) for c, k in zip(children, known, strict=True)]
        population = _survivors(join(population, scored(grids, new, score)), len(grids), size)
    return population.ranked


def _children(
    population: Population, grids: Sequence[Grid], breeding: Breeding, rng: Generator
) -> list[Codes]:
    size = breeding.size
    parents = _tournament(population, size, rng)
    cut = int(size * breeding.mutated)
    end = min(size, int(size * (breeding.mutated + breeding.crossed)))
    children: list[Codes] = []
    for n, grid in enumerate(grids):
        mutable = parents[:cut][population.grids[parents[:cut]] == n]
        first = parents[cut:end][population.grids[parents[cut:end]] == n]
        second = rng.permutation(first)
        fresh = grid.random(-(-(size - end) // len(grids)), rng)
        mutated = breeding.mutate(grid, population.codes[mutable], rng)
        crossed = breeding.cross(grid, population.codes[first], population.codes[second], rng)
        children.append(np.concatenate([mutated, crossed, fresh]))
    return children


def _tournament(population: Population, count: int, rng: Generator) -> NDArray[np.int64]:
    a, b = rng.integers(0, len(population), (2, count))
    return np.where(population.scores[a] >= population.scores[b], a, b)


def join(a: Population, b: Population) -> Population:
    """Return both, one after the other."""
    return Population(
        np.concatenate([a.grids, b.grids]),
        np.concatenate([a.codes, b.codes]),
        np.concatenate([a.scores, b.scores]),
    )


def _survivors(population: Population, grids: int, size: int) -> Population:
    ranked = population.ranked
    kept = np.zeros(len(ranked), np.bool_)
    kept[:size] = True
    for n in range(grids):
        kept[np.flatnonzero(ranked.grids == n)[:KEPT_PER_SKETCH]] = True
    return ranked.take(kept)
