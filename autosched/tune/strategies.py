"""The strategies by name: the one table of them, and what each may be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.tune.analytic_search import AnalyticSearch, AnalyticSettings
from autosched.tune.annealing import AnnealingSearch, AnnealingSettings
from autosched.tune.ansor import AnsorSearch, AnsorSettings
from autosched.tune.candidate import Key
from autosched.tune.evolution import EvolutionSearch, EvolutionSettings
from autosched.tune.exhaustive import ExhaustiveSearch, ExhaustiveSettings
from autosched.tune.forest import ForestSearch, ForestSettings
from autosched.tune.genetic import GeneticSearch, GeneticSettings
from autosched.tune.grid import Grid
from autosched.tune.random_search import RandomSearch, RandomSettings
from autosched.tune.strategy import Strategy
from cost_model.model import CostModel
from cost_model.settings import read
from search_space.target import Target


@dataclass(frozen=True)
class Given:
    """What a strategy is made from. ``nearest`` are schedules that did well elsewhere."""

    grids: Sequence[Grid]
    target: Target
    model: CostModel | None
    seed: int
    nearest: Sequence[Key] = ()

    @property
    def learner(self) -> CostModel:
        """The model. Raises ValueError where there is none."""
        if self.model is None:
            raise ValueError("this strategy needs a cost model")
        return self.model


@dataclass(frozen=True)
class Entry:
    """A strategy: the class of its settings, how it is made, and whether it uses the model."""

    settings: type[Any]
    make: Callable[[Given, Any], Strategy]
    learns: bool = False


TABLE: Mapping[str, Entry] = {
    "evolution": Entry(
        EvolutionSettings,
        lambda g, s: EvolutionSearch(g.grids, g.target, g.learner, g.seed, s, nearest=g.nearest),
        learns=True,
    ),
    "random": Entry(RandomSettings, lambda g, s: RandomSearch(g.grids, g.seed, s)),
    "genetic": Entry(GeneticSettings, lambda g, s: GeneticSearch(g.grids, g.seed, s)),
    "forest": Entry(ForestSettings, lambda g, s: ForestSearch(g.grids, g.seed, s)),
    "ansor": Entry(
        AnsorSettings, lambda g, s: AnsorSearch(g.grids, g.target, g.learner, g.seed, s), True
    ),
    "annealing": Entry(
        AnnealingSettings,
        lambda g, s: AnnealingSearch(g.grids, g.target, g.learner, g.seed, s),
        learns=True,
    ),
    "analytic": Entry(AnalyticSettings, lambda g, s: AnalyticSearch(g.grids, g.target, g.seed, s)),
    "exhaustive": Entry(ExhaustiveSettings, lambda g, s: ExhaustiveSearch(g.grids, s)),
}


def names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return tuple(TABLE)


def settings_of(name: str) -> type[Any]:
    """Return the dataclass of the settings of a strategy; KeyError if there is none."""
    return TABLE[name].settings


def learns(name: str) -> bool:
    """Whether a strategy uses a cost model; KeyError if there is none of that name."""
    return TABLE[name].learns


def check(name: str, settings: Mapping[str, Any]) -> None:
    """Raise BadSettings unless ``settings`` are those of a strategy, as plain data."""
    read(TABLE[name].settings, settings)


def make(
    name: str,
    grids: Sequence[Grid],
    target: Target,
    model: CostModel | None,
    seed: int,
    settings: Mapping[str, Any],
    *,
    nearest: Sequence[Key] = (),
) -> Strategy:
    """Return a new strategy. ``settings`` are plain data; what is missing has its default.

    ``model`` may be None where the strategy does not learn (``learns``); ``nearest`` are schedules
    that did well for the nearest workloads. Raises BadSettings, and KeyError if there is no
    strategy of that name.
    """
    entry = TABLE[name]
    return entry.make(Given(grids, target, model, seed, nearest), read(entry.settings, settings))
