"""What the analytic model alone would have tried, best first. Learns nothing. A baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Grid
from autosched.tune.shortlist import Analytic, best_of_sketches, shortlist
from autosched.tune.space import Space
from autosched.tune.strategy import Told
from search_space.sketch import Sketch
from search_space.target import Target

#: Blocks of every sketch that are ranked, and schedules of each.
BLOCKS, EACH = 256, 16


@dataclass(frozen=True)
class AnalyticSettings:
    """There are none."""


class AnalyticSearch:
    """The analytic model's ranking, spread as the first batches of ``EvolutionSearch``: the best
    of each sketch that comes near, then the best of each block, then the ranking as it is."""

    name = "analytic"

    def __init__(
        self,
        grids: Sequence[Grid],
        target: Target,
        seed: int,
        settings: AnalyticSettings | None = None,
    ) -> None:
        del settings
        self._space = Space(grids)
        self._seed = seed
        self._rng = np.random.default_rng([seed])
        self._ranked = shortlist(grids, Analytic(target), self._rng, BLOCKS, EACH)
        self._heads = self._ranked.take(best_of_sketches(self._ranked))
        self._alike: list[Candidate] = []

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The seed: of spaces too large to be looked at whole it decides what is."""
        return {"seed": self._seed}

    def ask(self, count: int) -> list[Candidate]:
        """Return the next ``count``; once all that were ranked are proposed, the rest by chance."""
        found = self._space.take(self._heads, count, "analytic", 1, alike=self._alike)
        spread = [*self._alike, *found]
        found += self._space.take(self._ranked, count - len(found), "analytic", 1, alike=spread)
        found += self._space.take(self._ranked, count - len(found), "analytic")
        self._alike += found
        left = self._space.draw(count - len(found), self._rng)
        return found + self._space.propose(left, "random")

    def tell(self, told: Sequence[Told]) -> None:
        """Ignore what came of earlier candidates."""
