"""What a model sees of a candidate: named numbers with units and formulas, for whole populations.

Gathers the columns of ``feature_list``. Knows no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cost_model.feature_list import FEATURES, GROUPS, View
from cost_model.machine import machine, roofline_us
from cost_model.terms import times
from search_space.case import Case, case_of, columns
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload

__all__ = ["FEATURES", "GROUPS", "NAMES", "features", "features_of", "kept", "schema_hash"]

#: Names of the columns, in order.
NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
NOTHING: Mapping[str, NDArray[np.float64]] = MappingProxyType({})


def features(
    sketch: Sketch,
    matrix: NDArray[np.int64],
    target: Target,
    facts: Mapping[str, NDArray[np.float64]] = NOTHING,
) -> NDArray[np.float32]:
    """Return the features [candidates, len(NAMES)] as float32, columns in the order of ``NAMES``.

    ``matrix`` holds choices [candidates, choices] in ``sketch.names`` order; a choice that the
    sketch lacks has its default (``case.DEFAULTS``). ``facts`` are columns [candidates] by the
    names of ``feature_list.FACTS``.
    """
    case = case_of(sketch, columns(sketch, matrix), target)
    return features_of(sketch.workload, case, len(matrix), facts)


def features_of(
    workload: Workload,
    case: Case,
    rows: int,
    facts: Mapping[str, NDArray[np.float64]] = NOTHING,
) -> NDArray[np.float32]:
    """Return the features [rows, len(NAMES)] of a case, however it was made."""
    view = View(
        case=case,
        times=times(case, rows),
        roof_us=roofline_us(workload, case.target),
        kept_bytes=machine(case.structure, case.target).l2_kept_bytes,
        facts=facts,
    )
    table = np.empty((len(FEATURES), rows), np.float32)
    for row, feature in zip(table, FEATURES, strict=True):
        row[:] = feature.compute(view)
    return table.T


def kept(dropped: Collection[str]) -> NDArray[np.int64]:
    """Return the columns whose group is not among ``dropped``."""
    return np.flatnonzero([feature.group not in dropped for feature in FEATURES])


def schema_hash() -> str:
    """Return 12 hex digits over names, units and formulas in order: equal means same columns."""
    text = "\n".join(f"{f.name}\t{f.unit}\t{f.formula}" for f in FEATURES)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
