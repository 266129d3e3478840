"""Makes what an arm is of, by the names and settings that a file gave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import Arm
from autosched.tune import strategies
from autosched.tune.nearest import nearest
from autosched.tune.strategy import Strategy
from cost_model import models, prior
from cost_model.dataset import joined
from cost_model.model import CostModel
from cost_model.prior import Prior


def prior_of(others: Sequence[Outcomes]) -> Prior:
    """Return what a model inherits: all that was recorded of ``others``.

    Raises BadPrior where that is too little.
    """
    rows = reduce(joined, [other.dataset for other in others])
    return prior.build(rows, others[0].target.name)


def model_of(arm: Arm, seed: int, inherited: Prior | None) -> CostModel:
    """Return a new model, which has been told nothing."""
    return models.make(arm.cost_model, seed, arm.model, inherited)


def strategy_of(
    arm: Arm,
    seed: int,
    outcomes: Outcomes,
    others: Sequence[Outcomes] = (),
    inherited: Prior | None = None,
) -> Strategy:
    """Return a new strategy, which has seen nothing of ``outcomes``.

    ``others`` are the outcomes that an arm with a prior knows before it starts, and ``inherited``
    what its model learnt of them.
    """
    known = [one for other in others for one in other.observations]
    model = model_of(arm, seed, inherited) if strategies.learns(arm.strategy) else None
    return strategies.make(
        arm.strategy,
        outcomes.grids,
        outcomes.target,
        model,
        seed,
        arm.search,
        nearest=nearest(known, outcomes.grids) if known else (),
    )
