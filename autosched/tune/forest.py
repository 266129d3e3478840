"""Pattern search screened by a random forest on the choices alone, as Helion tunes. A baseline.

Follows ``LFBOPatternSearch`` of Helion (``helion/autotuner/surrogate_pattern_search.py``; Song et
al., ICML 2022, on likelihood-free optimization): 100 random schedules first; then a forest learns
to tell the best tenth from the rest, failures included, better ones of that tenth weighing more;
around each of the 5 best, 300 neighbours are made, and the tenth of them is measured that the
forest holds likeliest to be good, less how often it puts them into the leaves of those picked
before; each path goes on from the best that it found, and ends after two turns without a gain.
Where all paths have ended, or after 20 generations, Helion stops; here the search starts from the
best anew, for as long as it is asked. A generation is planned when the one before is proposed, by
what is known then. Helion turns a tile, the warps and up to two more choices by up to two values;
here a neighbour is two mutations of ``Grid`` away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Codes, Grid
from autosched.tune.history import History
from autosched.tune.settings import check, number, share, whole
from autosched.tune.space import Place, Space
from autosched.tune.strategy import Told
from search_space.sketch import Sketch


@dataclass(frozen=True)
class ForestSettings:
    """How it searches, by the published values. Raises BadSettings.

    ``first`` schedules are random. ``paths`` start from the best, each for ``generations`` of
    ``neighbours`` made by ``radius`` changes of which the share ``selected`` is measured; a path
    ends after more than ``patience`` turns that gain less than the share ``least_gain``. Good is
    the share ``good`` of the best; ``similarity`` weighs the penalty on what is alike.
    """

    first: int = whole(100, 1, 1 << 20)
    generations: int = whole(20, 1, 1 << 20)
    paths: int = whole(5, 1, 1 << 20)
    neighbours: int = whole(300, 1, 1 << 20)
    radius: int = whole(2, 1, 64)
    selected: float = share(0.1)
    good: float = share(0.1)
    patience: int = whole(1, 0, 1 << 20)
    similarity: float = number(1.0, 0.0, 1e6)
    least_gain: float = share(0.001)
    trees: int = whole(100, 1, 10_000)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class _Path:
    """Where a path stands, in what time, the turns left to gain, and what it has on its way."""

    at: Place
    latency_us: float
    patience: int
    sent: tuple[Place, ...] = ()


class ForestSearch:
    """Paths from the best measured, screened by a forest; equal arguments and tellings, equal
    proposals."""

    name = "forest"

    def __init__(
        self, grids: Sequence[Grid], seed: int, settings: ForestSettings | None = None
    ) -> None:
        self._space = Space(grids)
        self._seed = seed
        self._wish = settings or ForestSettings()
        self._history = History()
        self._columns = list(dict.fromkeys(n for grid in grids for n in grid.sketch.names))
        self._asked = 0
        self._generation = 0
        self._paths: list[_Path] = []
        self._queue: deque[Place] = deque()

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments, and the version of what grows the trees."""
        library = {"scikit_learn": metadata.version("scikit-learn")}
        return {"seed": self._seed, **asdict(self._wish), **library}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates; the forest grows when a generation is planned."""
        self._history.enter(told)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        fresh = min(count, max(0, self._wish.first - len(self._space)))
        found = self._space.propose(self._space.draw(fresh, rng), "random")
        while len(found) < count:
            if not self._queue and not self._plan(rng):
                break
            found += self._space.propose([self._queue.popleft()], "polish")
        return found + self._space.propose(self._space.draw(count - len(found), rng), "random")

    def _plan(self, rng: Generator) -> bool:
        """Plan a generation, and say whether it holds anything."""
        told = {self._space.place(t.candidate): t.latency_us for t in self._history.told}
        times = {place: us for place, us in told.items() if us is not None}
        gone_on = ((old, self._gone_on(old, times)) for old in self._paths)
        self._paths = [
            replace(path, sent=tuple(place for place in old.sent if place not in told))
            for old, path in gone_on
            if path is not None
        ]
        self._generation += 1
        if not self._paths or self._generation > self._wish.generations:
            best = sorted(times.items(), key=lambda held: (held[1], held[0]))[: self._wish.paths]
            self._paths = [_Path(at, us, self._wish.patience) for at, us in best]
            self._generation = 1
        forest = self._grown()
        planned: dict[Place, None] = {}
        paths = []
        for path in self._paths:
            near = [place for place in self._near(path.at, rng) if place not in planned]
            picked = self._picked(forest, near, rng)
            planned |= dict.fromkeys(picked)
            paths += [replace(path, sent=(*path.sent, *picked))] if picked else []
        self._paths = paths
        self._queue.extend(planned)
        return bool(planned)

    def _gone_on(self, path: _Path, times: Mapping[Place, float]) -> _Path | None:
        """Return a path at the best that it found, or None where it ends."""
        known = [(times[place], place) for place in path.sent if place in times]
        best_us, best = min([(path.latency_us, path.at), *known])
        gained = best_us < path.latency_us * (1 - self._wish.least_gain)
        if not gained and path.patience == 0:
            return None
        return _Path(best, best_us, path.patience if gained else path.patience - 1)

    def _near(self, at: Place, rng: Generator) -> list[Place]:
        """Return new places near one, different ones."""
        n, code = at
        codes: Codes = np.full(self._wish.neighbours, code, np.int64)
        for _ in range(self._wish.radius):
            codes = self._space.grids[n].mutate(codes, rng)
        places = [(n, held) for held in dict.fromkeys(codes.tolist())]
        return [place for place in places if self._space.is_new(place)]

    def _picked(self, forest: Any, near: Sequence[Place], rng: Generator) -> list[Place]:
        """Return the best of ``near``, one after another, each unlike those before it."""
        count = min(len(near), max(1, round(self._wish.selected * self._wish.neighbours)))
        if forest is None or not near:
            return [near[row] for row in rng.permutation(len(near))[:count].tolist()]
        table = self._table(near)
        chance, leaves = forest.predict_proba(table)[:, 1], forest.apply(table)
        alike, picked = np.zeros(len(near)), list[int]()
        for _ in range(count):
            worth = chance - self._wish.similarity * alike / max(1, len(picked))
            worth[picked] = -np.inf
            picked.append(int(np.argmax(worth)))
            alike += (leaves == leaves[picked[-1]]).mean(axis=1)
        return [near[row] for row in picked]

    def _grown(self) -> Any:
        """Return a forest of what is known; None where all is alike."""
        times_us = np.array([t.latency_us or np.inf for t in self._history.told])
        timed = np.isfinite(times_us)
        if not timed.any():
            return None
        bound = np.quantile(times_us[timed], self._wish.good)
        good = times_us <= bound
        if good.all():
            return None
        # Imported where wanted: what needs no forest does not load one.
        from sklearn.ensemble import RandomForestClassifier

        weights = np.ones(len(good))
        ahead = np.maximum(1e-5, bound - times_us[good])
        weights[good] = ahead / ahead.mean()
        places = [self._space.place(t.candidate) for t in self._history.told]
        forest = RandomForestClassifier(
            self._wish.trees, criterion="log_loss", random_state=self._seed, n_jobs=1
        )
        return forest.fit(self._table(places), good, sample_weight=weights)

    def _table(self, places: Sequence[Place]) -> NDArray[np.float64]:
        """Return sketches as columns of 0 and 1 and the logarithms of choices, 0 where a sketch
        has none [places, columns]."""
        grids = self._space.grids
        rows = np.array(places, np.int64).reshape(-1, 2)
        table = np.zeros((len(rows), len(grids) + len(self._columns)))
        for n, grid in enumerate(grids):
            here = np.flatnonzero(rows[:, 0] == n)
            table[here, n] = 1.0
            values = grid.values_of(rows[here, 1], self._columns)
            table[here, len(grids) :] = np.log2(np.maximum(values, 1))
        return table
