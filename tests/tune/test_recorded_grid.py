"""Searching a landscape: moves stay within what is recorded."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.landscape.form import Head, Line
from autosched.landscape.landscape import Landscape, place
from autosched.landscape.synthetic import synthetic
from autosched.tune.course import Course
from autosched.tune.recorded_grid import RecordedGrid
from autosched.tune.recorded_outcomes import RecordedOutcomes, device_info
from autosched.tune.sampling import Sampling
from autosched.tune.strategy import Told
from measure.measurement import Failed, Timed
from measure.replay_device import ReplayDevice

SPEC = {"op": "matmul", "m": 256, "n": 512, "k": 1024, "dtype": "float16"}


def made_up(count: int) -> tuple[Head, tuple[Line, ...]]:
    return synthetic(SPEC, count, most_sketches=3)


@pytest.fixture(scope="module")
def held() -> Landscape:
    return place(Path("made-up.landscape.xz"), *made_up(60))


def _keys(held: Landscape, grid: RecordedGrid, codes: np.ndarray) -> set[tuple[object, ...]]:
    return {(grid.sketch.name, tuple(row)) for row in grid.values(codes).tolist()}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_every_move_ends_at_a_recorded_schedule(held: Landscape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for grid in RecordedGrid.all_of(held):
        codes = grid.survey(rng)
        known = _keys(held, grid, codes)
        assert known <= set(held.by_key)
        moved = grid.mutate(codes, rng)
        assert (moved != codes).all() or len(codes) == 1
        crossed = grid.crossover(codes, rng.permutation(codes), rng)
        drawn = grid.random(5, rng)
        assert len(drawn) == min(5, len(codes)) == len(set(drawn.tolist()))
        beside = grid.neighbours(int(codes[0]))
        assert (len(beside) and codes[0] not in beside) or len(codes) == 1
        for found in (moved, crossed, drawn, beside):
            assert _keys(held, grid, found) <= known


def test_a_mutation_goes_to_what_is_near(held: Landscape) -> None:
    rng = np.random.default_rng(0)
    for grid in RecordedGrid.all_of(held):
        codes = grid.survey(rng)
        away = [grid._distance(codes[n : n + 1])[0] for n in range(len(codes))]
        order = {int(code): n for n, code in enumerate(codes)}
        moved = [away[n][order[int(c)]] for n, c in enumerate(grid.mutate(codes, rng))]
        chance = np.mean([row.mean() for row in away])
        assert np.mean(moved) < chance


def test_a_course_over_a_landscape_renders_nothing_and_meets_every_schedule(
    held: Landscape,
) -> None:
    outcomes = RecordedOutcomes(held)
    strategy = Sampling(RecordedGrid.all_of(held), 0, len(held.points))
    course = Course(held.workload, held.target, strategy, 16, outcomes.fingerprint)
    met = {}
    while (batch := course.propose()).proposals:
        assert all(p.program is None and p.fingerprint for p in batch.proposals)
        found = {p.number: held.outcome(p.candidate.key) for p in batch.proposals}
        course.tell(batch, found)
        met |= {p.candidate.key: found[p.number] for p in batch.proposals}
    assert met == {point.key: point.outcome for point in held.points}


def test_half_of_a_sample_lies_around_the_best(held: Landscape) -> None:
    strategy = Sampling(RecordedGrid.all_of(held), 1, 40)
    first = strategy.ask(20)
    strategy.tell([Told(c, held.outcome(c.key)) for c in first])
    second = strategy.ask(10)
    assert {c.origin for c in first} == {"random"}
    assert {c.origin for c in second} == {"polish"}
    assert not {c.key for c in first} & {c.key for c in second}


def test_the_device_gives_back_what_was_recorded(held: Landscape) -> None:
    outcomes = RecordedOutcomes(held)
    strategy = Sampling(RecordedGrid.all_of(held), 0, 20)
    course = Course(held.workload, held.target, strategy, 20)
    pairs = [(p.candidate, p.program) for p in course.propose().proposals]
    for candidate, program in pairs:
        outcomes.learn(candidate, program)
    device = ReplayDevice(device_info(held), outcomes, None)
    programs = [program for _, program in pairs]
    results = device.submit(programs).results()
    assert results == [held.outcome(candidate.key) for candidate, _ in pairs]
    comparison = device.compare(programs, library=True)
    timed = {n: r.latency_us for n, r in enumerate(results) if isinstance(r, Timed)}
    assert comparison.best == min(timed, key=timed.__getitem__)
    assert {n for n, e in enumerate(comparison.entrants) if isinstance(e, Failed)} == (
        set(range(len(results))) - set(timed)
    )
    assert comparison.library is None
