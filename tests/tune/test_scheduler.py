"""Who gets the next batch: by outcomes alone, everybody at some time, most where most is won."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.spec import load
from autosched.tune.family import family_of
from autosched.tune.scheduler import (
    NAMES,
    BadScheduler,
    Gradient,
    GradientSettings,
    History,
    RoundRobin,
    Scheduler,
    Sequential,
    Stake,
    make,
)
from autosched.tune.suite import stake_of
from search_space import target as targets

EXACT = GradientSettings(epsilon=0.0, warm_up=1)
#: On their way at a time, as in a suite.
OVERLAP = 2

times = st.one_of(st.none(), st.floats(0.1, 1e6))
histories_ = st.builds(
    lambda best, more, open_: History(len(best) + more, falling(best), open_),
    st.lists(times, max_size=8),
    st.integers(0, 2),
    st.booleans(),
)
stakes_ = st.builds(
    Stake,
    st.floats(0.1, 100),
    st.integers(0, 10**12),
    st.integers(1, 10**9),
    st.sampled_from(["a", "b"]),
)
tables = st.lists(st.tuples(stakes_, histories_), min_size=1, max_size=6)


def falling(best: Sequence[float | None]) -> tuple[float | None, ...]:
    """The least time after each turn."""
    found: list[float | None] = []
    for us in best:
        known = [t for t in (us, found[-1] if found else None) if t is not None]
        found.append(min(known, default=None))
    return tuple(found)


def simulated(
    scheduler: Scheduler,
    outcome: Callable[[int, int], float | None],
    turns: int,
    count: int,
) -> list[int]:
    """Grant turns as a suite does: the outcome of the last one is never known."""
    histories = [History() for _ in range(count)]
    granted: list[int] = []
    for turn in range(turns):
        n = scheduler.choose(histories)
        assert n is not None
        granted.append(n)
        histories[n] = replace(histories[n], granted=histories[n].granted + 1)
        if turn >= OVERLAP - 1:
            settled = granted[turn - OVERLAP + 1]
            held = histories[settled]
            best = falling([*held.best_us, outcome(settled, len(held.best_us))])
            histories[settled] = replace(held, best_us=best)
    return granted


@given(tables, st.sampled_from(NAMES))
def test_an_open_task_is_chosen_and_equal_histories_choose_the_same(table, name: str) -> None:
    stakes, histories = zip(*table, strict=True)
    chosen = make(name, stakes, {}).choose(histories)
    assert chosen == make(name, stakes, {}).choose(histories)
    if any(history.open for history in histories):
        assert chosen is not None
        assert histories[chosen].open
    else:
        assert chosen is None


@given(st.integers(1, 6), st.integers(1, 60))
def test_round_robin_keeps_turns_within_one_of_each_other(count: int, turns: int) -> None:
    granted = simulated(RoundRobin(), lambda n, t: 1.0, turns, count)
    numbers = [granted.count(n) for n in range(count)]
    assert max(numbers) - min(numbers) <= 1


def test_sequential_takes_the_first_that_is_open() -> None:
    histories = [History(3, (1.0,), open=False), History(9, (1.0,)), History()]
    assert Sequential().choose(histories) == 1


@given(
    st.lists(stakes_, min_size=1, max_size=6),
    st.integers(0, 2**16),
    st.floats(0.0, 1.0),
    st.integers(0, 2**16),
    st.integers(1, 3),
)
def test_every_task_has_as_many_turns_as_it_takes_to_warm_up(
    stakes: list[Stake], luck: int, failures: float, seed: int, warm_up: int
) -> None:
    def outcome(n: int, turn: int) -> float | None:
        rng = Random(f"{luck} {n} {turn}")
        return None if rng.random() < failures else rng.lognormvariate(3.0, 1.0)

    scheduler = Gradient(stakes, GradientSettings(seed=seed, warm_up=warm_up))
    granted = simulated(scheduler, outcome, 40, len(stakes))
    assert granted[: warm_up * len(stakes)] == [*range(len(stakes))] * warm_up
    assert granted == simulated(scheduler, outcome, 40, len(stakes))


@given(tables, st.floats(0.01, 100))
def test_neither_the_unit_of_weights_nor_that_of_time_decides(table, factor: float) -> None:
    stakes, histories = zip(*table, strict=True)
    heavier = [replace(stake, weight=stake.weight * 4) for stake in stakes]
    slower = [replace(h, best_us=tuple(us and us * 1024 for us in h.best_us)) for h in histories]
    chosen = Gradient(stakes, EXACT).choose(histories)
    assert Gradient(heavier, EXACT).choose(histories) == chosen
    assert Gradient(stakes, EXACT).choose(slower) == chosen


def gradient(stakes: Sequence[Stake], *histories: History) -> int | None:
    return Gradient(stakes, EXACT).choose(histories)


def test_weight_and_time_draw_turns() -> None:
    alone = [Stake(family="a"), Stake(family="b")]
    assert gradient(alone, History(2, (10.0, 10.0)), History(2, (30.0, 30.0))) == 1
    heavy = [Stake(weight=4.0, family="a"), Stake(family="b")]
    assert gradient(heavy, History(2, (10.0, 10.0)), History(2, (30.0, 30.0))) == 0


def test_turns_without_a_gain_yield_to_others() -> None:
    alone = [Stake(family="a"), Stake(family="b")]
    granted = simulated(Gradient(alone, EXACT), lambda n, t: (100.0, 20.0)[n], 60, 2)
    assert granted.count(0) > granted.count(1)
    # Gradients are equal where turns go as the times do: 100 / t_0 = 20 / t_1.
    assert granted.count(0) / granted.count(1) == pytest.approx(5.0, abs=0.5)


def test_what_gained_lately_goes_on() -> None:
    alone = [Stake(family="a"), Stake(family="b")]
    flat, steep = History(6, (50.0,) * 6), History(6, (90.0, 80.0, 70.0, 60.0, 50.0, 49.0))
    assert gradient(alone, flat, steep) == 1
    assert gradient(alone, flat, replace(steep, best_us=(49.0,) * 6)) == 0


def test_a_task_far_behind_a_similar_one_is_hoped_for() -> None:
    def like(family: str, weight: float) -> Stake:
        return Stake(weight, 1000, 10, family)

    late = (History(50, (100.0,) * 50), History(50, (10.0,) * 50), History(4, (20.0,) * 4))
    # By itself the first has nothing to gain after so many turns; beside the second it should
    # come down from 100 us to twice 10.
    assert gradient([like("a", 1), like("b", 1), like("c", 1)], *late) == 2
    assert gradient([like("a", 1), like("a", 1), like("c", 1)], *late) == 0
    # One of other sizes says nothing.
    larger = replace(like("a", 1), operations=3000)
    assert gradient([like("a", 1), larger, like("c", 1)], *late) == 2
    wider = replace(like("a", 1), bytes=30)
    assert gradient([like("a", 1), wider, like("c", 1)], *late) == 2


def test_the_formula_by_hand() -> None:
    stakes = [Stake(2.0, 800, 10, "a"), Stake(1.0, 1000, 10, "a")]
    histories = [History(6, (90.0, 60.0, 50.0, 45.0, 42.0)), History(3, (10.0, 8.0, 5.0))]
    scheduler = Gradient(stakes, EXACT)
    # 0.2 * (42 - 60) / 3 + 0.8 * min(-42 / 6, 2 * 800 / (1000 / 5) - 42), twice.
    assert scheduler._gradient(0, histories) == pytest.approx(2 * (-1.2 + 0.8 * -34.0))
    # No window of three turns yet; -5 / 3 against 2 * 1000 / 200 - 5.
    assert scheduler._gradient(1, histories) == pytest.approx(0.8 * -5 / 3)


def test_nobody_is_hoped_to_get_below_the_floor() -> None:
    near, far = Stake(family="a", floor_us=95.0), Stake(family="b", floor_us=5.0)
    histories = History(4, (100.0,) * 4), History(4, (20.0,) * 4)
    assert gradient([near, far], *histories) == 1
    assert gradient([replace(near, floor_us=0.0), far], *histories) == 0
    # Nor do similar ones draw it there.
    alike = [Stake(1.0, 1000, 10, "a", floor) for floor in (40.0, 0.0)]
    held = [History(9, (50.0,) * 9), History(9, (10.0,) * 9)]
    assert Gradient(alike, EXACT)._gradient(0, held) == pytest.approx(0.8 * -10.0)


def test_a_task_in_which_nothing_works_has_its_share_and_no_more() -> None:
    stakes = [Stake(family=name) for name in "abc"]
    outcome = lambda n, t: None if n == 1 else 10.0  # noqa: E731
    granted = simulated(Gradient(stakes, EXACT), outcome, 60, 3)
    assert 18 <= granted.count(1) <= 22


def test_a_share_of_turns_is_drawn_from_all() -> None:
    stakes = [Stake(weight=1e6, family="a"), Stake(weight=1e-6, family="b")]
    scheduler = Gradient(stakes, GradientSettings(epsilon=0.2, seed=3, warm_up=1))
    granted = simulated(scheduler, lambda n, t: 10.0, 400, 2)
    assert granted.count(1) == pytest.approx(40, abs=15)
    assert granted != simulated(
        Gradient(stakes, GradientSettings(epsilon=0.2, seed=4, warm_up=1)),
        lambda n, t: 10.0,
        400,
        2,
    )


def stake(spec: str) -> Stake:
    return stake_of(load(f"{spec},dtype=float16")[0].workload, targets.load("h200"))


def test_families_differ_in_sizes_alone() -> None:
    square, near = stake("matmul:m=512,n=512,k=512"), stake("matmul:m=512,n=768,k=512")
    assert square.like(near)
    assert not square.like(stake("matmul:m=512,n=512,k=512,epilogue=relu"))
    assert not square.like(stake("matmul:m=1024,n=1024,k=1024"))
    # As many operations, and far more to read.
    assert not square.like(stake("matmul:m=16,n=4096,k=2048"))
    half, whole = load("matmul:m=8,n=8,k=8,dtype=float16"), load("matmul:m=8,n=8,k=8,dtype=float32")
    assert family_of(half[0].workload) != family_of(whole[0].workload)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("fair", {}, "one of gradient, round-robin, sequential, not 'fair'"),
        ("gradient", {"gamma": 1}, "has no setting 'gamma'"),
        ("gradient", {"alpha": 2.0}, "alpha is a bounded number, not 2.0"),
        ("gradient", {"window": 0}, "window is a bounded number, not 0"),
        ("gradient", {"beta": float("inf")}, "beta is a bounded number, not inf"),
        ("gradient", {"seed": True}, "seed is a bounded number, not True"),
        ("round-robin", {"alpha": 0.2}, "has no setting 'alpha'"),
    ],
)
def test_settings_are_checked(name: str, settings: dict, words: str) -> None:
    with pytest.raises(BadScheduler, match=words):
        make(name, [Stake()], settings)
    assert make("gradient", [Stake()], {"alpha": 0.5, "seed": 3}).settings["alpha"] == 0.5
