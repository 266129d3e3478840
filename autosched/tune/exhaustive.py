"""Every legal schedule in a fixed order: sketch by sketch, codes rising. Learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from autosched.tune.candidate import Candidate
from autosched.tune.grid import WHOLE, Grid
from autosched.tune.space import Space
from autosched.tune.strategy import Told
from cost_model.settings import BadSettings
from search_space.sketch import Sketch


@dataclass(frozen=True)
class ExhaustiveSettings:
    """There are none."""


class ExhaustiveSearch:
    """Goes through all of ``grids``.

    Raises BadSettings where a sketch has more combinations of choices than are looked at whole.
    """

    name = "exhaustive"

    def __init__(self, grids: Sequence[Grid], settings: ExhaustiveSettings | None = None) -> None:
        del settings
        for grid in grids:
            if not grid.whole:
                wish = f"another one where sketches have more than {WHOLE} combinations"
                raise BadSettings("strategy", wish, f"exhaustive: {grid.sketch.name} does")
        self._space = Space(grids)
        rng = np.random.default_rng(0)
        self._left = ((n, c) for n, g in enumerate(grids) for c in g.survey(rng).tolist())

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """Nothing: no chance takes part."""
        return {}

    def ask(self, count: int) -> list[Candidate]:
        """Return the next ``count``; fewer at the end."""
        return self._space.propose(islice(self._left, count), "list")

    def tell(self, told: Sequence[Told]) -> None:
        """Ignore what came of earlier candidates."""
