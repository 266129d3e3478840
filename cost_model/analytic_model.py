"""Predict times from choices alone, in closed form (see ``terms``). Learns nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.dataset import Dataset
from cost_model.machine import roofline_us
from cost_model.terms import times
from search_space.case import case_of, columns
from search_space.sketch import Sketch
from search_space.target import Target


def predict_us(sketch: Sketch, matrix: NDArray[np.int64], target: Target) -> NDArray[np.float64]:
    """Return predicted times [candidates], microseconds.

    ``matrix`` holds choices [candidates, choices] in ``sketch.names`` order.
    """
    return times(case_of(sketch, columns(sketch, matrix), target), len(matrix)).total_us


class AnalyticModel:
    """Scores by ``predict_us`` alone; never fitted, never says that a candidate will fail."""

    name = "analytic"
    settings: Mapping[str, Any] = MappingProxyType({})

    def fit(self, dataset: Dataset) -> None:
        """Learn nothing from ``dataset``."""

    def score(
        self, sketch: Sketch, matrix: NDArray[np.int64], target: Target
    ) -> NDArray[np.float64]:
        """Return predicted log efficiency [candidates]: ``log(t_roof / t)``, 0 at the roofline."""
        roof = roofline_us(sketch.workload, target)
        return np.asarray(np.log(roof / predict_us(sketch, matrix, target)))
