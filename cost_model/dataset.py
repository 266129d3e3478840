"""Measured candidates as arrays that a model learns from. Knows no model and no log format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_model.features import NAMES, features, schema_hash
from cost_model.machine import roofline_us
from search_space.sketch import Sketch
from search_space.target import Target


@dataclass(frozen=True)
class Observation:
    """What came of one candidate: its time in microseconds, or None if it failed."""

    sketch: Sketch
    choices: Mapping[str, int]
    latency_us: float | None


@dataclass(frozen=True)
class Dataset:
    """Rows of features and what was measured. Arrays have equal lengths [rows].

    ``log_efficiency`` is ``log(t_roof / t)``, NaN for candidates that failed. ``analytic`` is
    the analytic model's prediction of it. ``workloads`` are workload keys. ``schema`` is the
    hash of the columns of ``features`` [rows, columns].
    """

    features: NDArray[np.float32]
    log_efficiency: NDArray[np.float64]
    analytic: NDArray[np.float64]
    workloads: tuple[str, ...]
    schema: str

    def __len__(self) -> int:
        return len(self.log_efficiency)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows have a time [rows]."""
        return np.isfinite(self.log_efficiency)

    @property
    def weights(self) -> NDArray[np.float64]:
        """``1 / sqrt(rows of the same workload)`` [rows]: many trials of one do not drown few."""
        counts = {key: self.workloads.count(key) for key in set(self.workloads)}
        return np.array([counts[key] ** -0.5 for key in self.workloads])


def build(observations: Iterable[Observation], target: Target) -> Dataset:
    """Gather observations of one target, features computed sketch by sketch, order kept.

    A time that is not finite and positive counts as a failure.
    """
    rows = list(observations)
    table = np.full((len(rows), len(NAMES)), np.nan, np.float32)
    roofs = np.ones(len(rows))
    for sketch, places in _by_sketch(rows):
        held = [[rows[n].choices[name] for name in sketch.names] for n in places]
        table[places] = features(sketch, np.array(held, np.int64), target)
        roofs[places] = roofline_us(sketch.workload, sketch.structure, target)
    times_us = np.array([_usable(row.latency_us) for row in rows], np.float64)
    return Dataset(
        features=table,
        log_efficiency=np.log(roofs / times_us),
        analytic=analytic_column(table),
        workloads=tuple(row.sketch.workload.key for row in rows),
        schema=schema_hash(),
    )


def analytic_column(table: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the analytic log efficiency held in a table of features [rows, columns]."""
    return table[:, NAMES.index("analytic_log_efficiency")].astype(np.float64)


def _by_sketch(rows: list[Observation]) -> list[tuple[Sketch, list[int]]]:
    groups: dict[int, tuple[Sketch, list[int]]] = {}
    for n, row in enumerate(rows):
        groups.setdefault(id(row.sketch), (row.sketch, []))[1].append(n)
    return list(groups.values())


def _usable(latency_us: float | None) -> float:
    if latency_us is None or not math.isfinite(latency_us) or latency_us <= 0:
        return math.nan
    return latency_us
