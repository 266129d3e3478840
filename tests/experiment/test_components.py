"""What arms with a prior know before they start, and what they do not."""

import pytest

from autosched.experiment.components import prior_of, strategy_of
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.place import open_landscape
from autosched.experiment.plan import Experiment


@pytest.fixture(scope="module")
def pair(experiment: Experiment) -> list[Outcomes]:
    return [Outcomes.of(open_landscape(place)) for place in experiment.places]


def test_a_strategy_is_told_what_did_well_elsewhere(
    experiment: Experiment, pair: list[Outcomes]
) -> None:
    small, _ = pair
    arm = experiment.arms[0]
    informed = strategy_of(arm, 0, small, [small]).ask(16)
    nearest = [candidate.key for candidate in informed if candidate.origin == "nearest"]
    timed = [p for p in small.points if p.latency_us is not None]
    best = sorted(timed, key=lambda point: point.latency_us)[: len(nearest)]
    assert nearest == [point.key for point in best]
    assert nearest
    assert "nearest" not in {c.origin for c in strategy_of(arm, 0, small).ask(16)}


def test_a_prior_holds_the_rows_of_the_others(pair: list[Outcomes]) -> None:
    small, skinny = pair
    held = prior_of([skinny])
    assert set(held.dataset.workloads) == {skinny.workload.key}
    assert len(held.dataset) == len(skinny.points)
    assert held.target == small.target.name
