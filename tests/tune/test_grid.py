"""Grids: arrays of codes that agree with choices by name, and stay legal under every move."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.te.operators import matmul
from autosched.tune.grid import Grid
from autosched.tune.population import Breeding, breed, scored
from search_space import target as targets
from search_space.limits import violation
from search_space.rules import sketches
from search_space.sample import neighbours

H200 = targets.load("h200")
SKETCHES = sketches(matmul(100, 4096, 700, dtype="float16", trans_b=True), H200)
GRIDS = [Grid(sketch, H200) for sketch in SKETCHES]


@settings(max_examples=25)
@given(st.sampled_from(GRIDS), st.integers(0, 2**32))
def test_moves_are_legal_and_repeatable(grid: Grid, seed: int) -> None:
    def walk() -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        drawn = grid.random(20, rng)
        mutated = grid.mutate(drawn, rng)
        return [drawn, mutated, grid.crossover(drawn, rng.permutation(mutated), rng)]

    walked = walk()
    for codes in walked:
        for code in codes.tolist():
            choices = grid.choices(code)
            assert violation(grid.sketch, choices, H200) is None
            assert grid.code(choices) == code
    assert [codes.tolist() for codes in walk()] == [codes.tolist() for codes in walked]


@settings(max_examples=10)
@given(st.sampled_from(GRIDS), st.integers(0, 2**32))
def test_neighbours_are_those_of_the_choices(grid: Grid, seed: int) -> None:
    for code in grid.random(4, np.random.default_rng(seed)).tolist():
        near = neighbours(grid.sketch, grid.choices(code), H200)
        assert grid.neighbours(code).tolist() == [grid.code(choices) for choices in near]


def test_a_child_takes_every_choice_from_a_parent() -> None:
    grid, rng = GRIDS[0], np.random.default_rng(0)
    first, second = grid.random(50, rng), grid.random(50, rng)
    count = min(len(first), len(second))
    a, b = grid.values(first[:count]), grid.values(second[:count])
    child = grid.values(grid.crossover(first[:count], second[:count], rng))
    assert ((child == a) | (child == b)).all()
    assert (child != a).any()


def test_mutation_moves_nearly_all() -> None:
    grid, rng = GRIDS[0], np.random.default_rng(0)
    drawn = grid.random(100, rng)
    assert (grid.mutate(drawn, rng) != drawn).mean() > 0.8


def test_a_survey_is_every_legal_candidate() -> None:
    grid = min(GRIDS, key=lambda grid: grid.sketch.size)
    surveyed = set(grid.survey(np.random.default_rng(0)).tolist())
    legal = {
        code
        for code in range(grid.sketch.size)
        if violation(grid.sketch, grid.choices(code), H200) is None
    }
    assert surveyed == legal


def test_breeding_climbs_and_keeps_every_sketch() -> None:
    rng = np.random.default_rng(0)

    def score(grid: Grid, codes: np.ndarray) -> np.ndarray:
        held = grid.values_of(codes, ("tile_m", "tile_n", "stages"))
        return -np.abs(np.log2(held / np.array([64, 128, 4]))).sum(axis=1)

    start = scored(GRIDS, [grid.random(10, rng) for grid in GRIDS], score)
    bred = breed(start, GRIDS, score, Breeding(200, 4), rng)
    assert bred.scores[0] == 0.0 > start.scores.max()
    assert (np.diff(bred.scores) <= 0).all()
    assert set(bred.grids.tolist()) == set(range(len(GRIDS)))
    keys = set(zip(bred.grids.tolist(), bred.codes.tolist(), strict=True))
    assert len(keys) == len(bred)
