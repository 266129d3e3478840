"""Whether a start predicts told rows better than another: cross-validation by groups.

Rows that differ in little, of one sketch and block, are never split between learning and judging.
Knows arrays and a function that learns; nothing of what starts are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cost_model.feature_list import FEATURES
from cost_model.metrics import pairwise_accuracy

#: Parts that take turns at being judged.
FOLDS = 4
#: The choices that make a block, beside what the sketch is.
BLOCK = ("log2_tile_m", "log2_tile_n", "log2_tile_k", "log2_split")
_COLUMNS = [n for n, f in enumerate(FEATURES) if f.group == "structure" or f.name in BLOCK]

Column = NDArray[np.float64]
#: Learns from the rows of a mask and returns predictions for all [rows].
Predict = Callable[[NDArray[np.bool_]], Column]


def earns_its_place(
    table: NDArray[np.float32], wanted: Column, with_it: Predict, without: Predict
) -> bool:
    """Whether ``with_it`` orders left-out rows at least as well as ``without``."""
    folds = folds_of(table)
    scores = [np.zeros(len(wanted)), np.zeros(len(wanted))]
    for fold in range(FOLDS):
        left_out = folds == fold
        if not left_out.any():
            continue
        for held, predict in zip(scores, (with_it, without), strict=True):
            held[left_out] = predict(~left_out)[left_out]
    first, second = (pairwise_accuracy(held, wanted) for held in scores)
    return not first < second


def folds_of(table: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the fold of each row [rows]: groups in order of their first row, dealt in turn."""
    held = np.nan_to_num(table[:, _COLUMNS], nan=-1.0)
    _, first, group = np.unique(held, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    return np.asarray(rank[group.reshape(-1)] % FOLDS)
