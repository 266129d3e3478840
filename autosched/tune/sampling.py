"""Which schedules of a space are measured to stand for the whole of it.

Half are drawn uniformly, sketches in equal shares as their sizes say nothing of their worth. The
other half lie around the best measured so far: random schedules are mostly bad, and what tells
good from best is wanted too. No model takes part, so that the sample favours none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import Generator

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Grid
from autosched.tune.space import Place, Space
from autosched.tune.strategy import Told
from search_space.sketch import Sketch

#: Share of the schedules drawn uniformly.
UNIFORM = 0.5
#: The best measured from which the others are changed, and changes looked at for each wanted.
CENTRES, CHANGES = 48, 16


class Sampling:
    """Draws ``schedules`` candidates by the rule of this module; equal seeds, equal draws."""

    name = "sampling"

    def __init__(self, grids: Sequence[Grid], seed: int, schedules: int) -> None:
        self._space = Space(grids)
        self._seed = seed
        self._schedules = schedules
        self._asked = 0
        self._told: list[Told] = []

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {"seed": self._seed, "schedules": self._schedules}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates."""
        self._told += told

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates; fewer where the space is exhausted."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        found: list[Candidate] = []
        if len(self._space) >= UNIFORM * self._schedules:
            changed = islice(self._around(rng), CHANGES * count)
            new = dict.fromkeys(place for place in changed if self._space.is_new(place))
            found = self._space.propose(islice(new, count), "polish")
        drawn = self._space.draw(count - len(found), rng)
        return found + self._space.propose(drawn, "random")

    def _around(self, rng: Generator) -> Iterator[Place]:
        """Yield changes of the best measured, each of them as often; for ever."""
        timed = [t for t in self._told if t.latency_us is not None]
        centres = sorted(timed, key=lambda t: (t.latency_us, t.candidate.key))[:CENTRES]
        while centres:
            for told in centres:
                n, code = self._space.place(told.candidate)
                moved = self._space.grids[n].mutate(np.array([code], np.int64), rng)
                yield n, int(moved[0])
