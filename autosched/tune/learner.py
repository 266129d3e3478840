"""A cost model on its way through a search: fitted when it is wanted and something is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.tune.earlier import facts_of
from autosched.tune.grid import Codes, Grid
from autosched.tune.strategy import Told
from cost_model.dataset import Observation, build
from cost_model.model import CostModel
from search_space.target import Target


class Learner:
    """``model`` with what it is to learn from."""

    def __init__(self, model: CostModel, target: Target) -> None:
        self._model = model
        self._target = target
        self._fitted = 0

    @property
    def settings(self) -> Mapping[str, Any]:
        """The model's name and settings, as plain data for the log."""
        held = {f"model_{name}": value for name, value in self._model.settings.items()}
        return {"cost_model": self._model.name, **held}

    def learn(self, told: Sequence[Told]) -> None:
        """Fit the model to ``told``, all that was told so far, unless it is already."""
        if len(told) == self._fitted:
            return
        self._model.fit(build(map(_observation, told), self._target))
        self._fitted = len(told)

    def score(self, grid: Grid, codes: Codes) -> NDArray[np.float64]:
        """Return the scores of codes [codes], higher is better."""
        return self._model.score(grid.sketch, grid.values(codes), self._target)


def _observation(told: Told) -> Observation:
    candidate, facts = told.candidate, facts_of(told.measurement.facts)
    return Observation(candidate.sketch, candidate.choices, told.latency_us, facts)
