"""A sketch's space of which only some schedules are known: those of a landscape.

Moves are made as on the whole grid and end at the nearest known schedule, so that a strategy
searches one as it searches the other.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.landscape.landscape import Landscape
from autosched.tune.grid import Codes, Grid
from search_space.sketch import Sketch
from search_space.target import Target

#: Neighbours are known schedules at most this many changes away, or this many of the nearest.
STEPS, NEAREST = 1, 8
#: Moves whose nearest known schedule is looked for at a time: bounds the memory it takes.
TOGETHER = 256


class RecordedGrid(Grid):
    """The grid of ``sketch`` in which ``known`` codes alone are legal."""

    def __init__(self, sketch: Sketch, target: Target, known: Codes) -> None:
        super().__init__(sketch, target)
        self._known = np.unique(known)
        self._known_places = self._places(self._known)

    @staticmethod
    def all_of(landscape: Landscape) -> list[RecordedGrid]:
        """Return the grids of the sketches that have recorded schedules, in the rules' order."""
        found = []
        for sketch in landscape.sketches:
            whole = Grid(sketch, landscape.target)
            codes = [
                whole.code(dict(zip(sketch.names, point.choices, strict=True)))
                for point in landscape.points
                if point.sketch.name == sketch.name
            ]
            found.append(RecordedGrid(sketch, landscape.target, np.array(codes, np.int64)))
        return found

    @property
    def whole(self) -> bool:
        """Every known code is surveyed."""
        return True

    def survey(self, rng: Generator) -> Codes:
        """Return every known code."""
        del rng
        return self._known.copy()

    def random(self, count: int, rng: Generator) -> Codes:
        """Return up to ``count`` different known codes, drawn uniformly."""
        return rng.permutation(self._known)[:count]

    def neighbours(self, code: int) -> Codes:
        """Return the known codes one step away, or the nearest where there are none."""
        distance = self._distance(np.array([code], np.int64))[0]
        distance[self._known == code] = np.inf
        beside = self._known[distance <= STEPS]
        if len(beside):
            return np.asarray(beside)
        nearest = np.argsort(distance, kind="stable")[:NEAREST]
        return np.asarray(self._known[nearest[np.isfinite(distance[nearest])]])

    def mutate(self, codes: Codes, rng: Generator) -> Codes:
        """Change one or a few choices of each and go to the nearest known code but itself."""
        return self._nearest(self._mutated(codes, rng), codes, rng)

    def crossover(self, first: Codes, second: Codes, rng: Generator) -> Codes:
        """Take each choice from either parent and go to the nearest known code."""
        a, b = self._places(first), self._places(second)
        child = np.asarray(np.where(rng.random(a.shape) < 0.5, a, b) @ self._radix)
        return self._nearest(child, None, rng)

    def _is_legal(self, codes: Codes) -> NDArray[np.bool_]:
        return np.isin(codes, self._known)

    def _nearest(self, wished: Codes, barred: Codes | None, rng: Generator) -> Codes:
        """Return the known code nearest to each; ties fall by chance. ``barred`` are not taken."""
        found = wished.copy()
        for start in range(0, len(wished), TOGETHER):
            rows = slice(start, start + TOGETHER)
            distance = self._distance(wished[rows])
            distance += 0.5 * rng.random(len(self._known))
            if barred is not None and len(self._known) > 1:
                distance[self._known[None, :] == barred[rows, None]] = np.inf
            found[rows] = self._known[distance.argmin(axis=1)]
        return found

    def _distance(self, codes: Codes) -> NDArray[np.float64]:
        """Return how many steps lie between codes and known ones [codes, known]."""
        away = np.abs(self._places(codes)[:, None, :] - self._known_places[None, :, :])
        return np.asarray(away.sum(axis=2), np.float64)
