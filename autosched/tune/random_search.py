"""Search without a model: legal candidates drawn at random. The baseline of every other search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Grid
from autosched.tune.space import Space
from autosched.tune.strategy import Told
from search_space.sketch import Sketch


@dataclass(frozen=True)
class RandomSettings:
    """Random search has none."""


class RandomSearch:
    """Draws a sketch, then legal choices of it, uniformly; learns nothing."""

    name = "random"

    def __init__(
        self, grids: Sequence[Grid], seed: int, settings: RandomSettings | None = None
    ) -> None:
        del settings
        self._space = Space(grids)
        self._seed = seed
        self._asked = 0

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The seed alone."""
        return {"seed": self._seed}

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new candidates; fewer when the space is nearly exhausted."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        return self._space.propose(self._space.draw(count, rng), "random")

    def tell(self, told: Sequence[Told]) -> None:
        """Ignore what came of earlier candidates."""
