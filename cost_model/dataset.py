"""Measured candidates as arrays that a model learns from. Knows no model and no log format."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_model.feature_list import FACTS
from cost_model.features import NAMES, features, schema_hash
from cost_model.machine import roofline_us
from search_space.sketch import Sketch
from search_space.target import Target


@dataclass(frozen=True)
class Observation:
    """What came of one candidate: its time in microseconds, or None if it failed, and what was
    compiled for it, by the names of ``feature_list.FACTS``, where that is known."""

    sketch: Sketch
    choices: Mapping[str, int]
    latency_us: float | None
    facts: Mapping[str, float] | None = None


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
    def groups(self) -> NDArray[np.int64]:
        """The workload of each row as a number [rows], counted by first appearance."""
        numbers = {key: n for n, key in enumerate(dict.fromkeys(self.workloads))}
        return np.array([numbers[key] for key in self.workloads], np.int64)

    @property
    def weights(self) -> NDArray[np.float64]:
        """``1 / sqrt(rows of the same workload)`` [rows]: many trials of one do not drown few."""
        counts = Counter(self.workloads)
        return np.array([counts[key] ** -0.5 for key in self.workloads])

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Dataset:
        """Return the rows picked by mask or index."""
        places = np.arange(len(self))[rows]
        return Dataset(
            self.features[places],
            self.log_efficiency[places],
            self.analytic[places],
            tuple(self.workloads[n] for n in places.tolist()),
            self.schema,
        )


def joined(first: Dataset, second: Dataset) -> Dataset:
    """Return the rows of both, which have the same schema."""
    return Dataset(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.log_efficiency, second.log_efficiency]),
        np.concatenate([first.analytic, second.analytic]),
        first.workloads + second.workloads,
        first.schema,
    )


def build(observations: Iterable[Observation], target: Target) -> Dataset:
    """Gather observations of one target, features computed sketch by sketch, order kept.

    A time that is not finite and positive counts as a failure.
    """
    rows = list(observations)
    table = np.full((len(rows), len(NAMES)), np.nan, np.float32)
    roofs = np.ones(len(rows))
    for sketch, places in _by_sketch(rows):
        held = [[rows[n].choices[name] for name in sketch.names] for n in places]
        facts = _columns([rows[n].facts for n in places])
        table[places] = features(sketch, np.array(held, np.int64), target, facts)
        roofs[places] = roofline_us(sketch.workload, target)
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


def _columns(facts: list[Mapping[str, float] | None]) -> dict[str, NDArray[np.float64]]:
    """Return columns [rows] of facts by name, NaN where one is not known; none if none is."""
    if not any(facts):
        return {}
    held = [one or {} for one in facts]
    return {name: np.array([one.get(name, np.nan) for one in held]) for name, _, _ in FACTS}


def _by_sketch(rows: list[Observation]) -> list[tuple[Sketch, list[int]]]:
    groups: dict[int, tuple[Sketch, list[int]]] = {}
    for n, row in enumerate(rows):
        groups.setdefault(id(row.sketch), (row.sketch, []))[1].append(n)
    return list(groups.values())


def _usable(latency_us: float | None) -> float:
    if latency_us is None or not math.isfinite(latency_us) or latency_us <= 0:
        return math.nan
    return latency_us
