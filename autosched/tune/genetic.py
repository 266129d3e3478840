"""A plain genetic algorithm on measured times: no model, no features. A baseline.

Children have two parents that each won a tournament, and are mutated with some probability, as in
the tuners of AutoTVM (Chen et al., NeurIPS 2018: ``tvm.autotvm.tuner.GATuner``, a population of
100, 3 elites) and of Kernel Tuner (van Werkhoven, FGCS 2019: ``strategies/genetic_algorithm.py``,
a population of 30, uniform crossover). Those draw parents by their times, not by tournaments, and
change a mutated choice to any value of its domain; here moves are those of ``Grid``. What is
bred while the last of a generation are measured is bred from those that are known. How well it
does depends on its own parameters (Willemsen et al., "Tuning the tuner", 2025), so the
defaults were chosen on recorded landscapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Grid
from autosched.tune.history import History
from autosched.tune.settings import check, share, whole
from autosched.tune.space import Place, Space
from autosched.tune.strategy import Told
from search_space.sketch import Sketch

#: Times that children are bred before what is missing is drawn at random.
TURNS = 4

#: Parents are of the last generation and the elites, or of the best of all.
Parents = Literal["recent", "best"]


@dataclass(frozen=True)
class GeneticSettings:
    """How it breeds. Raises BadSettings.

    ``population`` are drawn at random first, and are as many parents later. ``elites`` are the
    best of all, kept as parents. A parent is the best of ``tournament`` drawn; ``crossover`` and
    ``mutation`` are the shares of children that have a second parent and that are changed.
    """

    population: int = whole(16, 2, 1 << 20)
    elites: int = whole(4, 0, 1 << 20)
    parents: Parents = "best"
    tournament: int = whole(4, 1, 1 << 20)
    crossover: float = share(0.8)
    mutation: float = share(1.0)

    def __post_init__(self) -> None:
        check(self)


class GeneticSearch:
    """Breeds from what was measured; equal arguments and tellings, equal proposals."""

    name = "genetic"

    def __init__(
        self, grids: Sequence[Grid], seed: int, settings: GeneticSettings | None = None
    ) -> None:
        self._space = Space(grids)
        self._seed = seed
        self._wish = settings or GeneticSettings()
        self._history = History()
        self._asked = 0

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {"seed": self._seed, **asdict(self._wish)}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates."""
        self._history.enter(told)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        parents = [self._space.place(told.candidate) for told in self._parents()]
        fresh = min(count, max(0, self._wish.population - len(self._space)))
        found: list[Candidate] = []
        for _ in range(TURNS if parents else 0):
            wanted = count - fresh - len(found)
            if wanted <= 0:
                break
            children = self._children(parents, 2 * wanted, rng)
            new = [place for place in dict.fromkeys(children) if self._space.is_new(place)]
            found += self._space.propose(new[:wanted], "evolution")
        return found + self._space.propose(self._space.draw(count - len(found), rng), "random")

    def _parents(self) -> list[Told]:
        """Return the parents, fastest first."""
        wish = self._wish
        if wish.parents == "best":
            return self._history.best(wish.population)
        recent = self._history.best(wish.population, last=wish.population)
        both = {t.candidate.key: t for t in (*self._history.best(wish.elites), *recent)}
        return sorted(both.values(), key=lambda t: (t.latency_us, t.candidate.key))

    def _children(self, parents: Sequence[Place], count: int, rng: Generator) -> list[Place]:
        """Return ``count`` children of ``parents``, which are sorted by time."""
        grids = np.array([n for n, _ in parents], np.int64)
        codes = np.array([code for _, code in parents], np.int64)
        first = self._won(len(parents), count, rng)
        crossed = rng.random(count) < self._wish.crossover
        mutated = rng.random(count) < self._wish.mutation
        children = codes[first]
        for n, grid in enumerate(self._space.grids):
            rows = np.flatnonzero(crossed & (grids[first] == n))
            same = np.flatnonzero(grids == n)
            if len(rows):
                second = codes[same[self._won(len(same), len(rows), rng)]]
                children[rows] = grid.crossover(children[rows], second, rng)
            rows = np.flatnonzero(mutated & (grids[first] == n))
            if len(rows):
                children[rows] = grid.mutate(children[rows], rng)
        return list(zip(grids[first].tolist(), children.tolist(), strict=True))

    def _won(self, among: int, count: int, rng: Generator) -> NDArray[np.int64]:
        """Return who won ``count`` tournaments: the lowest index is the fastest."""
        return np.asarray(rng.integers(0, among, (count, self._wish.tournament)).min(axis=1))
