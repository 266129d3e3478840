"""Parallel simulated annealing, on the scores of a model or on measured times. A baseline.

On scores it follows AutoTVM (Chen et al., NeurIPS 2018: ``SimulatedAnnealingOptimizer`` and
``ModelBasedTuner`` of ``tvm.autotvm.tuner``): 128 chains walk 500 steps over the space while the
temperature falls from 1 to 0, the 64 best places that they saw are measured, but for the last 5 %
of them, in whose place random ones are; then the model is fitted anew, and the chains go on from
where they stand. A step there sets one choice to any value; here it is one of ``Grid.mutate``. On
times each chain walks by measured steps and takes a slower one with probability
exp(-(t_new - t) / t / T), as Kernel Tuner's ``simulated_annealing`` does (van Werkhoven, FGCS
2019).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate, Key, Origin
from autosched.tune.grid import Codes, Grid
from autosched.tune.history import History
from autosched.tune.learner import Learner
from autosched.tune.population import Population, join
from autosched.tune.settings import check, number, share, whole
from autosched.tune.space import Place, Space
from autosched.tune.strategy import Told
from cost_model.model import CostModel
from search_space.sketch import Sketch
from search_space.target import Target

#: Mutations of a place before a chain that walks by measured steps is set down anew.
STEPS = 8


@dataclass(frozen=True)
class AnnealingSettings:
    """How it cools, by the published values. Raises BadSettings.

    ``on`` says what chains walk on. The temperature falls from ``hot`` to ``cold``: with every
    step of ``steps`` on scores, with every proposal until ``horizon`` on times. ``plan`` places
    are measured between fits, ``epsilon`` of them random; chains stop after ``patience`` steps
    that bring nothing better.
    """

    on: Literal["scores", "times"] = "scores"
    chains: int = whole(128, 1, 1 << 20)
    steps: int = whole(500, 1, 1 << 20)
    hot: float = number(1.0, 0.0, 1e6)
    cold: float = number(0.0, 0.0, 1e6)
    patience: int = whole(50, 1, 1 << 20)
    plan: int = whole(64, 1, 1 << 20)
    epsilon: float = share(0.05)
    horizon: int | None = whole(None, 1, 1 << 32)

    def __post_init__(self) -> None:
        check(self)


class AnnealingSearch:
    """Chains on scores of ``model``; equal arguments and tellings, equal proposals."""

    name = "annealing"

    def __init__(
        self,
        grids: Sequence[Grid],
        target: Target,
        model: CostModel,
        seed: int,
        settings: AnnealingSettings | None = None,
    ) -> None:
        self._space = Space(grids)
        self._learner = Learner(model, target)
        self._seed = seed
        self._wish = settings or AnnealingSettings()
        self._history = History()
        self._asked = 0
        self._fits = 0
        self._plan: deque[tuple[Place, float]] = deque()
        self._points: Population | None = None
        self._scores: list[dict[int, float]] = []
        self._chains = _Chains(self._wish.chains)

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return self._space.sketches

    @property
    def settings(self) -> Mapping[str, Any]:
        """The other arguments."""
        return {"seed": self._seed, **self._learner.settings, **asdict(self._wish)}

    def tell(self, told: Sequence[Told]) -> None:
        """Remember what came of candidates, and let chains step."""
        self._history.enter(told)
        if self._wish.on == "times":
            rng = np.random.default_rng([self._seed, len(self._history), 1])
            for one in told:
                self._chains.settle(one, self._temperature(len(self._history)), rng)

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new legal candidates."""
        rng = np.random.default_rng([self._seed, self._asked])
        self._asked += 1
        found = self._stepped(count, rng) if self._wish.on == "times" else self._planned(count, rng)
        return found + self._space.propose(self._space.draw(count - len(found), rng), "random")

    def _planned(self, count: int, rng: Generator) -> list[Candidate]:
        """Return candidates of the plan that is left, its random share apart."""
        if len(self._history) >= self._wish.plan * (self._fits + 1):
            self._learner.learn(self._history.told)
            self._fits += 1
            best = self._annealed(rng)
            spared = int(self._wish.epsilon * self._wish.plan)
            planned = list(zip(best.places, best.scores.tolist(), strict=True))
            self._plan = deque(planned[: max(0, self._wish.plan - spared)])
        found: list[Candidate] = []
        while self._plan and len(found) < count:
            place, score = self._plan.popleft()
            found += self._space.propose([place], "walk", score)
        return found

    def _annealed(self, rng: Generator) -> Population:
        """Walk all chains, and return the best new places that they saw, best first."""
        wish = self._wish
        self._scores = [{} for _ in self._space.grids]
        points = self._points or _of(self._space.draw(wish.chains, rng))
        points = self._scored(points)
        if not len(points):
            return points
        best, since = self._best(points), 0
        for step in range(wish.steps):
            if since >= wish.patience:
                break
            heat = wish.hot + (wish.cold - wish.hot) * step / (wish.steps + 1)
            moved = self._scored(self._moved(points, rng))
            with np.errstate(over="ignore"):
                chance = np.exp((moved.scores - points.scores) / max(heat, 1e-9))
            taken = rng.random(len(points)) < chance
            points = Population(
                points.grids,
                np.where(taken, moved.codes, points.codes),
                np.where(taken, moved.scores, points.scores),
            )
            better = self._best(join(best, moved))
            since = since + 1 if better.places == best.places else 0
            best = better
        self._points = points
        return best

    def _best(self, population: Population) -> Population:
        ranked = population.different.ranked
        new = np.array([self._space.is_new(place) for place in ranked.places], bool)
        return ranked.take(new).first(self._wish.plan)

    def _moved(self, points: Population, rng: Generator) -> Population:
        codes = points.codes.copy()
        for n, grid in enumerate(self._space.grids):
            rows = np.flatnonzero(points.grids == n)
            if len(rows):
                codes[rows] = grid.mutate(codes[rows], rng)
        return Population(points.grids, codes, points.scores)

    def _scored(self, points: Population) -> Population:
        """Score places in their order, each once for a fit of the model."""
        scores = np.zeros(len(points))
        for n, grid in enumerate(self._space.grids):
            rows = np.flatnonzero(points.grids == n)
            codes, known = points.codes[rows].tolist(), self._scores[n]
            new = np.array([c for c in dict.fromkeys(codes) if c not in known], np.int64)
            if len(new):
                found = self._learner.score(grid, new).tolist()
                known.update(zip(new.tolist(), found, strict=True))
            scores[rows] = [known[code] for code in codes]
        return Population(points.grids, points.codes, scores)

    def _temperature(self, done: int) -> float:
        share = min(1.0, done / self._wish.horizon) if self._wish.horizon else 0.0
        return self._wish.hot + (self._wish.cold - self._wish.hot) * share

    def _stepped(self, count: int, rng: Generator) -> list[Candidate]:
        """Propose one step of each chain in turn; a chain that has no place is set down anew."""
        found: list[Candidate] = []
        lost: list[int] = []
        for _ in range(count):
            chain, at = self._chains.next()
            step = None if at is None else self._step(at, rng)
            if step is None:
                lost.append(chain)
            else:
                found += self._sent(chain, step, "walk")
        for chain, place in zip(lost, self._space.draw(len(lost), rng), strict=False):
            found += self._sent(chain, place, "random")
        return found

    def _sent(self, chain: int, place: Place, origin: Origin) -> list[Candidate]:
        proposed = self._space.propose([place], origin)
        for candidate in proposed:
            self._chains.send(chain, place, candidate)
        return proposed

    def _step(self, at: Place, rng: Generator) -> Place | None:
        """Return a new place near ``at``, farther with every attempt; None if none is found."""
        n, code = at
        codes: Codes = np.array([code], np.int64)
        for _ in range(STEPS):
            codes = self._space.grids[n].mutate(codes, rng)
            if self._space.is_new((n, int(codes[0]))):
                return n, int(codes[0])
        return None


class _Chains:
    """Chains that walk by measured steps: where each stands, and which steps are on their way."""

    def __init__(self, count: int) -> None:
        self._at: list[tuple[Place, float] | None] = [None] * count
        self._sent: dict[Key, tuple[int, Place]] = {}
        self._turn = 0

    def next(self) -> tuple[int, Place | None]:
        """Return the chain whose turn it is, and where it stands."""
        chain = self._turn % len(self._at)
        self._turn += 1
        held = self._at[chain]
        return chain, None if held is None else held[0]

    def send(self, chain: int, place: Place, candidate: Candidate) -> None:
        """Note a step on its way."""
        self._sent[candidate.key] = (chain, place)

    def settle(self, told: Told, temperature: float, rng: Generator) -> None:
        """Take a step whose time is known, or let it be."""
        if told.candidate.key not in self._sent:
            return
        chain, place = self._sent.pop(told.candidate.key)
        held, new_us = self._at[chain], told.latency_us
        if new_us is None:
            return
        slower = 0.0 if held is None else (new_us - held[1]) / held[1]
        chance = math.exp(-slower / temperature) if temperature > 0 and slower > 0 else 0.0
        if slower <= 0 or rng.random() < chance:
            self._at[chain] = (place, new_us)


def _of(places: Sequence[Place]) -> Population:
    held: NDArray[np.int64] = np.array(places, np.int64).reshape(-1, 2)
    return Population(held[:, 0], held[:, 1], np.zeros(len(held)))
