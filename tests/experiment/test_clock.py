"""The simulated clock, against sums done by hand and against what bounds it."""

from hypothesis import given
from hypothesis import strategies as st

from autosched.experiment.clock import SimulatedClock
from measure.measurement import Failed, Failure


def took(build_s: float, run_s: float) -> Failed:
    return Failed(Failure.COMPILE, "", build_s=build_s, run_s=run_s)


def test_one_builder_builds_in_turn_and_hides_builds_behind_runs() -> None:
    clock = SimulatedClock(builders=1)
    clock.spend(0.5)
    clock.submit([(0, took(1, 3)), (1, took(2, 1))])
    assert clock.wait([0, 1]) == {0: 4.5, 1: 5.5}
    assert clock.now_s == 5.5


def test_builders_work_side_by_side_and_what_is_built_first_runs_first() -> None:
    clock = SimulatedClock(builders=2)
    clock.submit([(0, took(4, 1)), (1, took(1, 1)), (2, took(1, 1))])
    assert clock.wait([0, 1, 2]) == {1: 2, 2: 3, 0: 5}


def test_a_batch_behind_is_built_meanwhile_and_may_run_before() -> None:
    clock = SimulatedClock(builders=2)
    clock.submit([(0, took(10, 1))])
    clock.submit([(1, took(2, 3))])
    assert clock.wait([0]) == {0: 11}
    clock.submit([(2, took(1, 1))])
    assert clock.wait([1]) == {1: 5}
    assert clock.wait([2]) == {2: 13}


TIMES = st.floats(0, 100).map(lambda seconds: round(seconds, 3))


@given(st.integers(1, 5), st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=12))
def test_no_schedule_is_shorter_than_its_parts_nor_longer_than_one_after_another(
    builders: int, work: list[tuple[float, float]]
) -> None:
    clock = SimulatedClock(builders)
    clock.submit([(n, took(*times)) for n, times in enumerate(work)])
    done = clock.wait(range(len(work)))
    builds, runs = (sum(column) for column in zip(*work, strict=True))
    slack = 1e-6
    assert clock.now_s == max(done.values())
    assert clock.now_s <= builds + runs + slack
    assert clock.now_s >= max(builds / builders, runs) - slack
    assert all(done[n] >= sum(times) - slack for n, times in enumerate(work))
