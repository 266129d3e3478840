"""Scores that mean nothing: the baseline that every other model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.dataset import Dataset
from search_space.sketch import Sketch
from search_space.target import Target


class RandomModel:
    """Draws scores from a seeded generator; the n-th call gives the same whatever was fitted."""

    name = "random"
    settings: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def fit(self, dataset: Dataset) -> None:
        """Learn nothing from ``dataset``."""

    def score(
        self,
        sketch: Sketch,  # noqa: ARG002 - part of the protocol
        matrix: NDArray[np.int64],
        target: Target,  # noqa: ARG002 - part of the protocol
    ) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1), one per candidate."""
        return self._rng.random(len(matrix))
