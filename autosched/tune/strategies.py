"""The strategies by name: the one table of them, and what each may be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.tune.candidate import Key
from autosched.tune.evolution import EvolutionSearch, EvolutionSettings
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
