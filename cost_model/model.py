"""What a cost model is: it learns from measured candidates and scores unmeasured ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cost_model.dataset import Dataset
from search_space.sketch import Sketch
from search_space.target import Target


class CostModel(Protocol):
    """Ranks candidates of any sketch. Fitting never raises on poor data: it falls back."""

    name: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """How it learns, as plain data, for the log."""

    def fit(self, dataset: Dataset) -> None:
        """Learn from ``dataset``, which is all that was told so far."""

    def score(
        self, sketch: Sketch, matrix: NDArray[np.int64], target: Target
    ) -> NDArray[np.float64]:
        """Return a finite score [candidates], higher is better; comparable between sketches.

        ``matrix`` holds choices [candidates, choices] in ``sketch.names`` order. The scale is
        that of log efficiency, ``log(t_roof / t)``, where the model has one.
        """
