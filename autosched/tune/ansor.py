"""Evolution with the parameters of Ansor (Zheng et al., OSDI 2020). A baseline.

Follows ``SketchPolicy`` of TVM (``src/auto_scheduler/search_policy/sketch_policy.cc``, and the
defaults of ``python/tvm/auto_scheduler/search_policy.py``): in every round a population of 2,048 is
bred four times over from 50 random programs and the best measured, at most a fifth of it; parents
are drawn in proportion to their predicted throughput, and are mutated with probability 0.85 or
passed on; there is no crossover. The best of all generations are measured, and 5 % of a batch are
random. Until 100 outcomes are known the model is held to know nothing, and scores are random
(``XGBModel.num_warmup_sample``). Its objective and weights, throughput, are settings of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate
from autosched.tune.grid import Codes, Grid
from autosched.tune.history import History
from autosched.tune.learner import Learner
from autosched.tune.population import Population, join, scored
from autosched.tune.settings import check, share, whole
from autosched.tune.space import Space, codes_of
from autosched.tune.strategy import Told
from cost_model.model import CostModel
from search_space.sketch import Sketch
from search_space.target import Target

#: What is kept of all generations, in batches.
KEPT = 2


@dataclass(frozen=True)
class AnsorSettings:
    """How it evolves, by the published values. Raises BadSettings.

    ``initial`` are drawn at random for a population, ``measured`` is the share of it that the best
    measured may take. Until ``warmup`` outcomes are known scores are random.
    """

    population: int = whole(2048, 2, 1 << 20)
    generations: int = whole(4, 0, 1000)
    mutation: float = share(0.85)
    epsilon: float = share(0.05)
    initial: int = whole(50, 1, 1 << 20)
    measured: float = share(0.2)
    warmup: int = whole(100, 0, 1 << 20)

    def __post_init__(self) -> None:
        check(self)


class AnsorSearch:
    """Ansor's evolution, guided by ``model``; equal arguments and tellings, equal proposals."""

    name = "ansor"

    def __init__(
        self,
        grids: Sequence[Grid],
        target: Target,
        model: CostModel,
        seed: int,
        settings: AnsorSettings | None = None,
    ) -> None:
        self._space = Space(grids)
        self._learner = Learner(model, target)
        self._seed = seed
        self._wish = settings or AnsorSettings()
        self._history = History()
        self._asked = 0

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {"seed": self._seed, **self._learner.settings, **asdict(self._wish)}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates; the model is fitted when next asked."""
        self._history.enter(told)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates, best predicted first."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        if self._is_warm:
            self._learner.learn(self._history.told)
        spared = int(count * self._wish.epsilon)
        found = self._space.take(self._evolved(KEPT * count, rng), count - spared, "evolution")
        return found + self._space.propose(self._space.draw(count - len(found), rng), "random")

    @property
    def _is_warm(self) -> bool:
        return len(self._history) >= max(1, self._wish.warmup)

    def _evolved(self, count: int, rng: Generator) -> Population:
        """Return the ``count`` best new ones of all generations, best first."""

        def score(grid: Grid, codes: Codes) -> NDArray[np.float64]:
            return self._learner.score(grid, codes) if self._is_warm else rng.random(len(codes))

        grids, wish = self._space.grids, self._wish
        drawn = self._space.draw(wish.initial, rng)
        measured = self._history.best(int(wish.measured * wish.population))
        start = [*drawn, *(self._space.place(told.candidate) for told in measured)]
        now = scored(grids, codes_of(start, len(grids)), score)
        best = self._new(now)
        for _ in range(wish.generations if len(now) else 0):
            now = scored(grids, self._children(now, rng), score)
            best = join(best, self._new(now)).different.ranked.first(count)
        return best.ranked.first(count)

    def _new(self, population: Population) -> Population:
        return population.take(np.array([self._space.is_new(p) for p in population.places], bool))

    def _children(self, parents: Population, rng: Generator) -> list[Codes]:
        wish = self._wish
        throughput = np.exp(parents.scores - parents.scores.max())
        chance = throughput / throughput.sum()
        rows = rng.choice(len(parents), wish.population, p=chance)
        mutated = rng.random(wish.population) < wish.mutation
        children: list[Codes] = []
        for n, grid in enumerate(self._space.grids):
            here = parents.grids[rows] == n
            changed = grid.mutate(parents.codes[rows[here & mutated]], rng)
            children.append(np.concatenate([changed, parents.codes[rows[here & ~mutated]]]))
        return children
