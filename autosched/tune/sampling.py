"""Which schedules of a space are measured to stand for the whole of it.

Half are drawn uniformly, sketches in equal shares as their sizes say nothing of their worth. The
other half lie around the best measured so far: random schedules are mostly bad, and what tells
good from best is wanted too. No model takes part, so that the sample favours none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.random import Generator

from autosched.tune.candidate import Candidate, Key, Origin
from autosched.tune.grid import Grid
from autosched.tune.strategy import Told
from search_space.sketch import Sketch

#: Share of the schedules drawn uniformly.
UNIFORM = 0.5
#: The best measured from which the others are changed.
CENTRES = 48
#: Draws in a row that bring nothing new before a space counts as exhausted.
STALE_DRAWS = 400


class Sampling:
    """Draws ``schedules`` candidates by the rule of this module; equal seeds, equal draws."""

    name = "sampling"

    def __init__(self, grids: Sequence[Grid], seed: int, schedules: int) -> None:
        self._grids = list(grids)
        self._index = {grid.sketch.name: n for n, grid in enumerate(grids)}
        self._seed = seed
        self._schedules = schedules
        self._asked = 0
        self._proposed: set[Key] = set()
        self._told: list[Told] = []

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return [grid.sketch for grid in self._grids]

    @property
    def settings(self) -> Mapping[str, str | int | None]:
        """The other arguments."""
        return {"seed": self._seed, "schedules": self._schedules}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates."""
        self._told += told

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        uniform = len(self._proposed) < UNIFORM * self._schedules or not self._centres()
        if uniform:
            return self._take(count, self._drawn(rng), "random")
        found = self._take(count, self._around(rng), "polish")
        return found + self._take(count - len(found), self._drawn(rng), "random")

    def _take(
        self, count: int, draws: Iterator[tuple[int, int]], origin: Origin
    ) -> list[Candidate]:
        found: list[Candidate] = []
        stale = 0
        while len(found) < count and stale < STALE_DRAWS:
            drawn = next(draws, None)
            if drawn is None:
                break
            n, code = drawn
            grid = self._grids[n]
            candidate = Candidate(grid.sketch, grid.choices(code), 0.0, origin)
            stale += 1
            if candidate.key not in self._proposed:
                self._proposed.add(candidate.key)
                found.append(candidate)
                stale = 0
        return found

    def _drawn(self, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield grids and codes, uniform within each grid; stop where no grid has any."""
        filled = [n for n, grid in enumerate(self._grids) if len(grid.random(1, rng))]
        while filled:
            n = filled[int(rng.integers(len(filled)))]
            yield from ((n, int(code)) for code in self._grids[n].random(1, rng))

    def _around(self, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield changes of the best measured, each of them as often."""
        centres = self._centres()
        while centres:
            for told in centres:
                n = self._index[told.candidate.sketch.name]
                grid = self._grids[n]
                code = np.array([grid.code(dict(told.candidate.choices))], np.int64)
                yield n, int(grid.mutate(code, rng)[0])

    def _centres(self) -> list[Told]:
        timed = [t for t in self._told if t.latency_us is not None]
        return sorted(timed, key=lambda t: (t.latency_us, t.candidate.key))[:CENTRES]
