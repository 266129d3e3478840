"""What arms with a prior take over from other landscapes."""

import pytest

from autosched.experiment.elsewhere import distance, nearest
from autosched.experiment.loader import open_landscape
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import Experiment


@pytest.fixture(scope="module")
def pair(experiment: Experiment) -> list[Outcomes]:
    return [Outcomes.of(open_landscape(place)) for place in experiment.places]


def test_the_best_of_a_landscape_are_taken_over_as_they_are_to_itself(pair: list[Outcomes]) -> None:
    small, _ = pair
    found = nearest(small, [small])
    times = [small.by_key[key].latency_us for key in found]
    wish = sorted(p.latency_us for p in small.points if p.latency_us is not None)[: len(found)]
    assert times == wish
    assert len(found) == 16


def test_what_is_taken_over_was_recorded_and_knows_no_outcome(pair: list[Outcomes]) -> None:
    small, skinny = pair
    found = nearest(small, [skinny])
    assert found
    assert all(key in small.by_key for key in found)
    assert nearest(small, []) == ()


def test_distances_are_doublings_of_extents(pair: list[Outcomes]) -> None:
    small, skinny = pair
    assert distance(small, small) == 0
    # m: 256 and 16, n: 512 and 1024, k: 1024 and 512.
    assert distance(small, skinny) == distance(skinny, small) == 4 + 1 + 1
