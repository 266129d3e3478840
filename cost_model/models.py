"""The cost models there are, by name. Loads a learner only where one is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cost_model.model import CostModel
from cost_model.settings import BadSettings, ModelSettings, NoSettings, read

if TYPE_CHECKING:
    from cost_model.xgboost_model import Prior

Settings = ModelSettings | NoSettings


def _xgboost(seed: int, settings: Any, prior: Prior | None, threads: int) -> CostModel:
    from cost_model.xgboost_model import XGBoostModel

    return XGBoostModel(seed, settings, prior, threads=threads)


def _analytic(_seed: int, _settings: Any, _prior: Prior | None, _threads: int) -> CostModel:
    from cost_model.analytic_model import AnalyticModel

    return AnalyticModel()


def _random(seed: int, _settings: Any, _prior: Prior | None, _threads: int) -> CostModel:
    from cost_model.random_model import RandomModel

    return RandomModel(seed)


_MODELS: dict[str, tuple[type[Settings], Callable[[int, Any, Prior | None, int], CostModel]]] = {
    "xgboost": (ModelSettings, _xgboost),
    "analytic": (NoSettings, _analytic),
    "random": (NoSettings, _random),
}
#: The names of all.
NAMES: tuple[str, ...] = tuple(_MODELS)


def settings_of(name: str) -> type[Settings]:
    """Return the dataclass of the settings of the model called ``name``. Raises BadSettings."""
    if name not in _MODELS:
        raise BadSettings("cost_model", f"one of {', '.join(NAMES)}", ascii(name)[:60])
    return _MODELS[name][0]


def make(
    name: str,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    prior: Prior | None = None,
    *,
    threads: int = 1,
) -> CostModel:
    """Return a new model. ``settings`` are plain data, checked; what is missing has its default.

    ``prior`` is taken where the settings say that there is transfer. What the model learns does
    not depend on ``threads``. Raises BadSettings.
    """
    held: Settings = read(settings_of(name), settings or {})
    return _MODELS[name][1](seed, held, prior, threads)
