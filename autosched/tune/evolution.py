"""Search by a population bred for what a cost model predicts. Never measures.

The first batches are the analytic model's best, spread over sketches and blocks, and random draws.
Later ones are bred from the best measured, the analytic best and fresh blood, and ranked by the
model; a share polishes the neighbourhood of the best measured; a few are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate, Key, Origin
from autosched.tune.grid import Codes, Grid
from autosched.tune.population import Population, breed, scored
from autosched.tune.strategy import Told
from cost_model.analytic_model import AnalyticModel
from cost_model.dataset import Observation, build
from cost_model.model import CostModel
from search_space.sample import neighbours
from search_space.sketch import Sketch
from search_space.target import Target

POPULATION = 1024
GENERATIONS = 4
#: Share of every later batch drawn at random, and taken beside the best measured: the second
#: once ``LATE`` of the horizon is proposed.
EPSILON = 0.05
POLISH, LATE_POLISH, LATE = 0.2, 0.4, 0.6
#: The best measured whose neighbours are polished, and that seed the population.
POLISHED, PARENTS = 4, 48
#: The choices by which candidates of one sketch count as alike.
BLOCK = ("tile_m", "tile_n", "tile_k", "split")
#: The analytic model's best block shapes that are kept of every sketch to seed populations with.
SHORTLIST = 64
#: The first batches are asked for before any outcome is known. Share of them from the analytic
#: model; the rest are the best of draws of ``DRAWN``.
BLIND = 2
ANALYTIC = 0.6
DRAWN = 4
#: Sketches predicted to be within this factor of the best get a place in the first batch.
WITHIN = 1.3
#: Share of a later batch that may have the same sketch and block.
ALIKE = 0.2


class EvolutionSearch:
    """Evolution guided by ``model``, in batches; equal arguments and tellings, equal proposals.

    ``horizon`` is the number of candidates that the search is planned for: polishing grows late
    in it. It is no bound, and asking for more changes nothing that was proposed before.
    """

    name = "evolution"

    def __init__(
        self,
        sketches: Sequence[Sketch],
        target: Target,
        model: CostModel,
        seed: int,
        *,
        horizon: int | None = None,
        population: int = POPULATION,
        generations: int = GENERATIONS,
    ) -> None:
        self._grids = [Grid(sketch, target) for sketch in sketches]
        self._index = {sketch.name: n for n, sketch in enumerate(sketches)}
        self._target = target
        self._model = model
        self._analytic = AnalyticModel()
        self._seed = seed
        self._horizon = horizon
        self._population = population
        self._generations = generations
        self._asked = 0
        self._stale = False
        self._told: list[Told] = []
        self._proposed: set[Key] = set()
        self._shortlist = self._survey(np.random.default_rng([seed]))

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return [grid.sketch for grid in self._grids]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {
            "seed": self._seed,
            "cost_model": self._model.name,
            **{f"model_{name}": value for name, value in self._model.settings.items()},
            "horizon": self._horizon,
            "population": self._population,
            "generations": self._generations,
        }

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates; the model is fitted when next asked."""
        self._told += told
        self._stale = self._stale or bool(told)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` legal candidates, best predicted first within their origin."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        if self._stale:
            told = (
                Observation(t.candidate.sketch, t.candidate.choices, t.latency_us)
                for t in self._told
            )
            self._model.fit(build(told, self._target))
            self._stale = False
        blind = not self._told and self._asked <= BLIND
        found = self._first(count, rng) if blind else self._later(count, rng)
        return found + self._random(count - len(found), rng, 1)

    def _first(self, count: int, rng: Generator) -> list[Candidate]:
        ranked = self._shortlist.ranked
        analytic = math.ceil(count * ANALYTIC)
        best = list(self._best_of_sketches(ranked))[:analytic]
        found = self._propose(ranked.take(np.array(best, np.int64)), len(best), "analytic", 1)
        found += self._propose(ranked, analytic - len(found), "analytic", 1, alike=found)
        return found + self._random(count - len(found), rng, DRAWN)

    def _best_of_sketches(self, ranked: Population) -> Iterator[int]:
        """Yield the row of the best of each sketch that is nearly as good as the best of all."""
        for n in dict.fromkeys(ranked.grids.tolist()):
            row = int(np.flatnonzero(ranked.grids == n)[0])
            if ranked.scores[row] >= ranked.scores[0] - math.log(WITHIN):
                yield row

    def _later(self, count: int, rng: Generator) -> list[Candidate]:
        spared = math.ceil(count * EPSILON) if count > 1 else 0
        most = max(2, math.ceil(count * ALIKE))
        found = self._propose(self._beside_best(), self._polish_share(count), "polish", count)
        population = breed(
            self._parents(rng), self._grids, self._score, self._population, self._generations, rng
        )
        wanted = count - spared - len(found)
        found += self._propose(population, wanted, "evolution", most)
        if len(found) < count - spared:
            found += self._propose(population, count - spared - len(found), "evolution", count)
        return found

    def _polish_share(self, count: int) -> int:
        late = self._horizon is not None and len(self._proposed) >= LATE * self._horizon
        return int(count * (LATE_POLISH if late else POLISH))

    def _beside_best(self) -> Population:
        """Return the neighbours of the best measured candidates, scored, best first."""
        codes: list[list[int]] = [[] for _ in self._grids]
        for told in self._best_told(POLISHED):
            sketch, n = told.candidate.sketch, self._index[told.candidate.sketch.name]
            near = neighbours(sketch, told.candidate.choices, self._target)
            codes[n] += [self._grids[n].code(choices) for choices in near]
        return self._scored(codes).ranked

    def _parents(self, rng: Generator) -> Population:
        """Return the best measured, the analytic shortlist and random draws, scored."""
        codes: list[list[int]] = [[] for _ in self._grids]
        for told in self._best_told(PARENTS):
            n = self._index[told.candidate.sketch.name]
            codes[n].append(self._grids[n].code(dict(told.candidate.choices)))
        fresh = self._population // (2 * len(self._grids)) + 1
        for n, grid in enumerate(self._grids):
            codes[n] += self._shortlist.codes[self._shortlist.grids == n].tolist()
            codes[n] += grid.random(fresh, rng).tolist()
        return self._scored(codes)

    def _best_told(self, count: int) -> list[Told]:
        timed = [t for t in self._told if t.latency_us is not None]
        return sorted(timed, key=lambda t: (t.latency_us, t.candidate.key))[:count]

    def _random(self, count: int, rng: Generator, drawn: int) -> list[Candidate]:
        """Propose the best by the analytic model of each ``drawn`` random candidates."""
        found: list[Candidate] = []
        for n in rng.integers(0, len(self._grids), 8 * max(count, 0)).tolist():
            if len(found) >= count:
                break
            codes = self._grids[n].random(drawn, rng)
            held: list[Codes] = [np.zeros(0, np.int64) for _ in self._grids]
            held[n] = codes
            ranked = scored(self._grids, held, self._analytic_score).ranked
            found += self._propose(ranked, 1, "random", 1)
        return found

    def _propose(
        self,
        ranked: Population,
        count: int,
        origin: Origin,
        most_alike: int,
        alike: Iterable[Candidate] = (),
    ) -> list[Candidate]:
        """Take the first ``count`` new ones, at most ``most_alike`` of the same sketch and block.

        ``alike`` are candidates that count towards that bound already.
        """
        found: list[Candidate] = []
        blocks: dict[tuple[object, ...], int] = {}
        for candidate in alike:
            blocks[_block(candidate)] = blocks.get(_block(candidate), 0) + 1
        for n, code, score in zip(
            ranked.grids.tolist(), ranked.codes.tolist(), ranked.scores.tolist(), strict=True
        ):
            if len(found) >= count:
                break
            grid = self._grids[n]
            candidate = Candidate(grid.sketch, grid.choices(code), score, origin)
            seen = blocks.get(_block(candidate), 0)
            if candidate.key in self._proposed or seen >= most_alike:
                continue
            blocks[_block(candidate)] = seen + 1
            self._proposed.add(candidate.key)
            found.append(candidate)
        return found

    def _survey(self, rng: Generator) -> Population:
        """Return the analytic model's best block shapes of every sketch, one candidate each."""
        best: list[Codes] = []
        for grid in self._grids:
            codes = grid.survey(rng)
            scores = self._analytic_score(grid, codes) if len(codes) else np.zeros(0)
            codes = codes[np.argsort(-scores, kind="stable")]
            _, first = np.unique(grid.values_of(codes, BLOCK), axis=0, return_index=True)
            best.append(codes[np.sort(first)[:SHORTLIST]])
        return scored(self._grids, best, self._analytic_score)

    def _scored(self, codes: Sequence[Sequence[int]]) -> Population:
        held = [np.array(c, np.int64) for c in codes]
        return scored(self._grids, held, self._score)

    def _score(self, grid: Grid, codes: Codes) -> NDArray[np.float64]:
        return self._model.score(grid.sketch, grid.values(codes), self._target)

    def _analytic_score(self, grid: Grid, codes: Codes) -> NDArray[np.float64]:
        return self._analytic.score(grid.sketch, grid.values(codes), self._target)


def _block(candidate: Candidate) -> tuple[object, ...]:
    held = candidate.choices
    shape = tuple(held.get(name, 1) for name in BLOCK)
    return (candidate.sketch.name, *shape)
