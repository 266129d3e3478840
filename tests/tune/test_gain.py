"""What counts as a gain: more than what timing the same schedule twice differs by."""

import pytest

from autosched.tune.gain import Gain
from measure.measurement import Failed, Failure, Timed, Timing


def timed(us: float, half_us: float = 0.0) -> Timed:
    timing = Timing(us, us - half_us, us + half_us, (us,))
    return Timed(timing, None, None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("second", "gained"),
    [
        (timed(99.5), False),
        (timed(99.0), True),
        (timed(98.0, half_us=3.0), False),
        (timed(98.0, half_us=1.0), True),
    ],
)
def test_a_gain_is_above_noise(second: Timed, gained: bool) -> None:
    gain = Gain()
    gain.enter(timed(100.0, half_us=0.5))
    gain.enter(second)
    assert gain.since == (0 if gained else 1)
    assert gain.best_us == second.latency_us


def test_the_interval_of_the_time_to_beat_counts_as_well() -> None:
    gain = Gain()
    gain.enter(timed(100.0, half_us=3.0))
    gain.enter(timed(98.0, half_us=0.1))
    assert gain.since == 1


def test_small_gains_add_up_and_failures_are_none() -> None:
    gain = Gain()
    for outcome in (timed(100.0), timed(99.5), Failed(Failure.COMPILE, "")):
        gain.enter(outcome)
    assert gain.since == 2
    gain.enter(timed(99.1))
    assert gain.since == 0
