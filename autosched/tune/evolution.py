"""Search by a population bred for what a cost model predicts. Never measures.

The first batches are the analytic model's best, spread over sketches and blocks, the best of the
nearest workloads of earlier runs, and random draws. Later ones are bred from the best measured,
the analytic best and fresh blood, and ranked by the model; a share polishes the neighbourhood of
the best measured; a few are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate, Key, text_of
from autosched.tune.grid import Codes, Grid
from autosched.tune.history import History
from autosched.tune.learner import Learner
from autosched.tune.population import Breeding, Moves, Population, Score, breed, scored
from autosched.tune.settings import check, share, whole
from autosched.tune.shortlist import Analytic, best_of_sketches, shortlist
from autosched.tune.space import Place, Space, codes_of
from autosched.tune.strategy import Told
from cost_model.model import CostModel
from search_space.sketch import Sketch
from search_space.target import Target

#: The analytic model's best block shapes that are kept of every sketch to seed populations with.
SHORTLIST = 64

#: What the first batches hold beside random draws: nothing; the analytic model's best; the best of
#: the nearest workloads of earlier runs; both. Where the analytic model is not named, the search
#: never asks it.
First = Literal["random", "analytic", "nearest", "all"]


@dataclass(frozen=True)
class EvolutionSettings:
    """How the search evolves. Raises BadSettings.

    ``horizon`` is the number of candidates that it is planned for: polishing grows late in it. It
    is no bound, and asking for more changes nothing that was proposed before.

    Of the first batches ``nearest`` is the share from earlier runs, where there are any, and
    ``analytic`` the share of the rest from the analytic model; what is left are the best of draws
    of ``drawn``. Of later batches ``epsilon`` is drawn at random, ``polish`` taken beside the
    ``polished`` best measured (``late_polish`` once ``late`` of the horizon is proposed), and at
    most ``alike`` of a batch has the same sketch and block.

    Populations start from the ``parents`` best measured. After ``restart_after`` outcomes without
    a gain above noise they start from random draws alone and mutate twice as far.
    """

    horizon: int | None = whole(None, 1, 1 << 32)
    first: First = "all"
    analytic: float = share(0.6)
    nearest: float = share(0.25)
    drawn: int = whole(4, 1, 1024)
    population: int = whole(1024, 2, 1 << 20)
    generations: int = whole(4, 0, 1000)
    mutated: float = share(0.6)
    crossed: float = share(0.3)
    moves: Moves = "legal"
    epsilon: float = share(0.05)
    alike: float = share(0.2)
    polish: float = share(0.2)
    late_polish: float = share(0.4)
    late: float = share(0.6)
    polished: int = whole(4, 0, 1024)
    parents: int = whole(48, 0, 1 << 20)
    restart_after: int | None = whole(None, 1, 1 << 32)

    def __post_init__(self) -> None:
        check(self)

    @property
    def asks_analytic(self) -> bool:
        """Whether the analytic model has a say."""
        return self.first in ("analytic", "all")

    @property
    def breeding(self) -> Breeding:
        """How populations are bred."""
        return Breeding(self.population, self.generations, self.mutated, self.crossed, self.moves)


class EvolutionSearch:
    """Evolution guided by ``model``, in batches; equal arguments and tellings, equal proposals.

    ``nearest`` are schedules of these grids that did well elsewhere, best first.
    """

    name = "evolution"

    def __init__(
        self,
        grids: Sequence[Grid],
        target: Target,
        model: CostModel,
        seed: int,
        settings: EvolutionSettings | None = None,
        *,
        nearest: Sequence[Key] = (),
    ) -> None:
        self._grids = tuple(grids)
        self._space = Space(grids)
        self._learner = Learner(model, target)
        self._history = History()
        self._seed = seed
        self._wish = settings or EvolutionSettings()
        self._nearest = tuple(nearest) if self._wish.first in ("nearest", "all") else ()
        self._analytic = Analytic(target)
        self._asked = 0
        self._shortlist: Population | None = None
        if self._wish.asks_analytic:
            rng = np.random.default_rng([seed])
            self._shortlist = shortlist(grids, self._analytic, rng, SHORTLIST)

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {
            "seed": self._seed,
            **self._learner.settings,
            **asdict(self._wish),
            "nearest_best": [text_of(key) for key in self._nearest],
        }

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates; the model is fitted when next asked."""
        self._history.enter(told)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` legal candidates, best predicted first within their origin."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        self._learner.learn(self._history.told)
        found = self._later(count, rng) if len(self._history) else self._first(count, rng)
        return found + self._random(count - len(found), rng, 1)

    def _first(self, count: int, rng: Generator) -> list[Candidate]:
        found = self._from_elsewhere(math.ceil(count * self._wish.nearest))
        if self._shortlist is None:
            return found + self._random(count - len(found), rng, 1)
        wanted = len(found) + math.ceil((count - len(found)) * self._wish.analytic)
        heads = self._shortlist.take(best_of_sketches(self._shortlist))
        found += self._space.take(heads, wanted - len(found), "analytic", 1, alike=found)
        found += self._space.take(self._shortlist, wanted - len(found), "analytic", 1, alike=found)
        return found + self._random(count - len(found), rng, self._wish.drawn)

    def _from_elsewhere(self, count: int) -> list[Candidate]:
        """Propose what did well for the nearest workloads, in the order in which it was given."""
        places = [place for key in self._nearest if (place := self._space.place_of(key))]
        new = [place for place in dict.fromkeys(places) if self._space.is_new(place)]
        return self._space.propose(new[:count], "nearest")

    def _later(self, count: int, rng: Generator) -> list[Candidate]:
        spared = math.ceil(count * self._wish.epsilon) if count > 1 else 0
        most = max(2, math.ceil(count * self._wish.alike))
        found = self._space.take(self._beside_best(), self._polish_share(count), "polish")
        breeding = self._wish.breeding
        if self._stuck:
            breeding = replace(breeding, times=2)
        population = breed(self._parents(rng), self._grids, self._learner.score, breeding, rng)
        found += self._space.take(population, count - spared - len(found), "evolution", most)
        return found + self._space.take(population, count - spared - len(found), "evolution")

    @property
    def _stuck(self) -> bool:
        after = self._wish.restart_after
        return after is not None and self._history.since_gain >= after

    def _polish_share(self, count: int) -> int:
        wish = self._wish
        late = wish.horizon is not None and len(self._space) >= wish.late * wish.horizon
        return int(count * (wish.late_polish if late else wish.polish))

    def _beside_best(self) -> Population:
        """Return the neighbours of the best measured candidates, scored, best first."""
        centres = [self._space.place(t.candidate) for t in self._history.best(self._wish.polished)]
        near = [(n, code) for n, at in centres for code in self._grids[n].neighbours(at).tolist()]
        return self._scored(codes_of(near, len(self._grids)), self._learner.score).ranked

    def _parents(self, rng: Generator) -> Population:
        """Return the best measured, the analytic shortlist and random draws, scored."""
        share = 1 if self._stuck else 2
        fresh = self._wish.population // (share * len(self._grids)) + 1
        best: list[Place] = []
        if not self._stuck:
            best = [self._space.place(t.candidate) for t in self._history.best(self._wish.parents)]
            best += [] if self._shortlist is None else self._shortlist.places
        known = codes_of(best, len(self._grids))
        drawn = [grid.random(fresh, rng) for grid in self._grids]
        codes = [np.concatenate(held) for held in zip(known, drawn, strict=True)]
        return self._scored(codes, self._learner.score)

    def _random(self, count: int, rng: Generator, drawn: int) -> list[Candidate]:
        """Propose random candidates, each the best of ``drawn`` of one sketch."""
        groups = self._groups(count, rng, drawn) if drawn > 1 else []
        found: list[Candidate] = []
        for group in groups:
            if len(found) < count:
                found += self._space.take(group, 1, "random")
        if len(found) >= count:
            return found
        places = self._space.draw(count - len(found), rng)
        left = self._scored(codes_of(places, len(self._grids)), self._known)
        return found + self._space.take(left.ranked, count - len(found), "random")

    def _groups(self, count: int, rng: Generator, drawn: int) -> list[Population]:
        """Return draws of ``drawn`` of one sketch each, best first."""
        order = rng.integers(0, len(self._grids), 2 * max(count, 0)).tolist()
        held = [(n, self._grids[n].random(drawn, rng)) for n in order]
        places = [(n, code) for n, codes in held for code in codes.tolist()]
        every = self._scored(codes_of(places, len(self._grids)), self._known)
        score = dict(zip(every.places, every.scores.tolist(), strict=True))
        return [
            Population(
                np.full(len(codes), n, np.int64),
                codes,
                np.array([score[n, code] for code in codes.tolist()]),
            ).ranked
            for n, codes in held
        ]

    def _scored(self, codes: Sequence[Codes], score: Score) -> Population:
        return scored(self._grids, codes, score)

    def _known(self, grid: Grid, codes: Codes) -> NDArray[np.float64]:
        """Score by what is known so far: the model once it is fitted, the analytic one before."""
        if len(self._history):
            return self._learner.score(grid, codes)
        return self._analytic(grid, codes) if self._wish.asks_analytic else np.zeros(len(codes))
