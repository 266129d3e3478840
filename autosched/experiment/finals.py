"""How finals choose, simulated from recorded repeats. Measures nothing.

A search ends with many times, each a median of repeats. Whoever takes the least of them takes a
lucky one (the winner's curse). Three ways to choose are compared on what a run tried:

* ``best seen``: the schedule with the least time.
* ``sequential``: the best few are timed again, one after another, each in a window of its own.
* ``interleaved``: the same, in turns, so that all share the windows.

What a schedule truly takes is held to be the median of its recorded repeats. A timing is the median
of repeats drawn from these with replacement, times what its window was slower by: windows differ as
the recorded ones did, by the drift that the anchor showed. The regret of a choice is what it truly
takes over the least that any tried schedule truly takes, less 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.experiment.schema import FinalsFields
from autosched.landscape import Point
from measure.measurement import Timed

#: A way to choose, among so many, in so many rounds.
Choice = tuple[str, int, int]
#: Ways to choose, and how many of the best a run looks at, however many are wished for.
METHODS = ("best seen", "sequential", "interleaved")
CONSIDERED = 64


def regrets(
    points: Sequence[Point], plan: FinalsFields, drifts: Sequence[float], word: str
) -> Mapping[Choice, NDArray[np.float64]]:
    """Return the regrets [draws] of each way to choose among so many of the best in so many rounds.

    ``points`` are what a run tried, ``drifts`` what windows of the landscape were slower by, over
    their median. Equal ``word`` and arguments give equal draws.
    """
    timed = [p for p in points if isinstance(p.outcome, Timed) and not p.outcome.quarantined]
    timed = sorted(timed, key=lambda p: (p.latency_us, p.key))[:CONSIDERED]
    if not timed:
        return {}
    repeats = [_repeats(point) for point in timed]
    truth = np.array([np.median(held) for held in repeats])
    seed = hashlib.sha256(word.encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(seed, "big"))
    found: dict[Choice, list[float]] = {}
    for _ in range(plan.draws):
        windows = _windows(drifts, len(repeats), rng)
        seen = windows * [np.median(_drawn(held, len(held), rng)) for held in repeats]
        order = np.argsort(seen, kind="stable")
        for count in plan.entrants:
            for rounds in plan.rounds if count > 1 else (0,):
                for method, picked in _picks(order[:count], repeats, rounds, drifts, rng):
                    lost = truth[picked] / truth.min() - 1
                    found.setdefault((method, count, rounds), []).append(lost)
    return {key: np.array(held) for key, held in found.items()}


def _picks(
    entrants: NDArray[np.int64],
    repeats: Sequence[NDArray[np.float64]],
    rounds: int,
    drifts: Sequence[float],
    rng: Generator,
) -> list[tuple[str, int]]:
    """Return the entrant that each way to choose picks; of one entrant there is one way."""
    first = ("best seen", int(entrants[0]))
    if len(entrants) == 1:
        return [first]
    draws = np.array([_drawn(repeats[n], rounds, rng) for n in entrants])
    own = _windows(drifts, len(entrants), rng)
    shared = _windows(drifts, rounds, rng)
    sequential = entrants[np.argmin(np.median(draws, axis=1) * own)]
    interleaved = entrants[np.argmin(np.median(draws * shared, axis=1))]
    return [("sequential", int(sequential)), ("interleaved", int(interleaved))]


def drifts(points: Sequence[Point]) -> list[float]:
    """Return the anchor's drift at each recorded time over the median drift; 1 where none is."""
    outcomes = [p.outcome for p in points]
    conditions = [o.conditions for o in outcomes if isinstance(o, Timed) and not o.quarantined]
    found = [c.drift for c in conditions if c is not None and c.drift > 0]
    middle = median(found) if found else 1.0
    return [drift / middle for drift in found] or [1.0]


def _repeats(point: Point) -> NDArray[np.float64]:
    assert isinstance(point.outcome, Timed)  # noqa: S101 (only those with a time come here)
    return np.array(point.outcome.timing.samples_us or (point.outcome.latency_us,))


def _drawn(repeats: NDArray[np.float64], count: int, rng: Generator) -> NDArray[np.float64]:
    return repeats[rng.integers(0, len(repeats), count)]


def _windows(drifts: Sequence[float], count: int, rng: Generator) -> NDArray[np.float64]:
    return np.asarray(drifts)[rng.integers(0, len(drifts), count)]
