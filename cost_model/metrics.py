"""How well scores rank and how well a search did. Knows neither models nor strategies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def spearman(scores: ArrayLike, values: ArrayLike) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; NaN if either is constant."""
    a, b = _ranks(np.asarray(scores, float)), _ranks(np.asarray(values, float))
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def pairwise_accuracy(scores: ArrayLike, values: ArrayLike) -> float:
    """Return the share of pairs with different values that scores put in the same order.

    Equal scores count as half right. NaN if all values are equal.
    """
    s, v = np.asarray(scores, float), np.asarray(values, float)
    upper = np.triu_indices(len(v), 1)
    wanted = np.sign(v[upper[0]] - v[upper[1]])
    given = np.sign(s[upper[0]] - s[upper[1]])
    counted = wanted != 0
    if not counted.any():
        return float("nan")
    return float(((given * wanted)[counted] + 1).mean() / 2)


def top_k_regret(scores: ArrayLike, times_us: ArrayLike, k: int) -> float:
    """Return how much slower the best of the ``k`` highest scores is than the best of all.

    ``min(times of the top k) / min(times) - 1``: 0 when the best is among them.
    """
    s, t = np.asarray(scores, float), np.asarray(times_us, float)
    picked = np.argsort(-s, kind="stable")[:k]
    return float(t[picked].min() / t.min() - 1)


def expected_random_best(times_us: ArrayLike, trials: int) -> NDArray[np.float64]:
    """Return the expected best time of random search after 1..trials draws without repeats.

    Calculated from a whole table of times rather than simulated: the best of n draws is the
    i-th fastest of N with probability ``C(N-i, n-1) / C(N, n)`` (Willemsen et al., a
    methodology for comparing optimization algorithms for auto-tuning, 2024).
    """
    t = np.sort(np.asarray(times_us, float))
    size = len(t)
    best = np.empty(trials)
    for n in range(1, trials + 1):
        if n >= size:
            best[n - 1] = t[0]
            continue
        # P(best is at i) = n/(N-i) * prod_{j<i} (1 - n/(N-j)): stable for any N.
        places = np.arange(size - n + 1)
        chance = n / (size - places)
        missed = np.concatenate([[1.0], np.cumprod(1 - chance[:-1])])
        best[n - 1] = float((t[: size - n + 1] * chance * missed).sum())
    return best


def performance(best_us: ArrayLike, random_us: ArrayLike, optimum_us: float) -> NDArray[np.float64]:
    """Return P(t) = (S_rand - S_alg) / (S_rand - S_opt) at each trial: 1 is the optimum.

    ``best_us`` and ``random_us`` are incumbents after 1.. trials of the search and of random
    search (Willemsen et al.). Where random search is at the optimum already, P is 1.
    """
    algorithm, random = np.asarray(best_us, float), np.asarray(random_us, float)
    gap = random - optimum_us
    safe = np.where(gap > 0, gap, 1.0)
    return np.where(gap > 0, (random - algorithm) / safe, 1.0)


def incumbents(times_us: Sequence[float | None]) -> NDArray[np.float64]:
    """Return the best time after each trial; infinite until the first that did not fail."""
    held = np.array([np.inf if t is None else t for t in times_us])
    return np.minimum.accumulate(held) if len(held) else held


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[places])
