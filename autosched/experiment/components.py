"""Makes the strategy of an arm, by the names and settings that a file gave."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.experiment.elsewhere import nearest
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import Arm
from autosched.tune import strategies
from autosched.tune.strategy import Strategy
from cost_model import models


def strategy_of(arm: Arm, seed: int, outcomes: Outcomes, others: Sequence[Outcomes]) -> Strategy:
    """Return a new strategy, which has seen nothing of ``outcomes``.

    ``others`` are the outcomes that an arm with a prior knows before it starts.
    """
    model = None
    if strategies.learns(arm.strategy):
        model = models.make(arm.cost_model, seed, arm.model, None)
    return strategies.make(
        arm.strategy,
        outcomes.grids,
        outcomes.target,
        model,
        seed,
        arm.search,
        nearest=nearest(outcomes, others),
    )
