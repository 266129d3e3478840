"""Sampling: legal whatever the seed, the same for the same seed."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_space import sample
from search_space import target as targets
from search_space.limits import violation
from search_space.sketch import Choice, Sketch, Structure
from search_space.workload import Axis, Tensor, Workload

H200 = targets.load("h200")
TILES = (16, 32, 64, 128, 256)
CHOICES = (
    Choice("tile_m", TILES),
    Choice("tile_n", TILES),
    Choice("tile_k", TILES),
    Choice("stages", (1, 2, 3, 4, 5, 6, 7)),
    Choice("warps", (4, 8)),
    Choice("group", (1, 2, 4, 8, 16, 32)),
)
SHARED = (*CHOICES, Choice("split", (2, 4, 8, 16, 32, 64)))


def sketch(m: int, n: int, k: int, *, split: bool = False) -> Sketch:
    """A sketch without steps: sampling reads the structure and the domains alone."""
    structure = Structure(
        batch=1,
        m=m,
        n=n,
        k=k,
        a_dtype="float16",
        b_dtype="float16",
        accumulator_dtype="float32",
        output_dtype="float16",
        arithmetic="float16",
        a_k_major=True,
        b_k_major=False,
        a_row_bytes=16,
        b_row_bytes=16,
        output_row_bytes=16,
        load="pointer",
        store="pointer",
        persistent=False,
        split="workspace" if split else "none",
        epilogue_bytes=0,
        epilogue_calls=0,
    )
    axes = (Axis("i", m, "spatial"), Axis("j", n, "spatial"))
    workload = Workload(axes, (), (), Tensor("C", (m, n), "float16"), ())
    return Sketch("by.hand", workload, (), SHARED if split else CHOICES, structure)


EXTENTS = st.sampled_from([1, 17, 100, 1024, 4096])
SKETCHES = st.builds(sketch, EXTENTS, EXTENTS, EXTENTS)
SEEDS = st.integers(0, 2**32)


@given(SKETCHES, SEEDS)
def test_draws_and_changes_are_legal_and_repeatable(made: Sketch, seed: int) -> None:
    def walk(rng: Random) -> list[dict[str, int]]:
        a, b = (sample.random_choices(made, H200, rng) for _ in range(2))
        assert a is not None
        assert b is not None
        child = sample.crossover(made, a, b, H200, rng)
        assert all(child[name] in (a[name], b[name]) for name in made.names)
        return [a, b, child, sample.mutate(made, child, H200, rng)]

    drawn = walk(Random(seed))
    assert all(violation(made, choices, H200) is None for choices in drawn)
    assert walk(Random(seed)) == drawn


@given(SEEDS)
def test_mutation_changes_something_where_it_can(seed: int) -> None:
    made = sketch(1024, 1024, 1024)
    rng = Random(seed)
    choices = sample.random_choices(made, H200, rng)
    assert choices is not None
    assert sample.mutate(made, choices, H200, rng) != choices


def test_mutation_changes_tiles_more_often_than_the_rest() -> None:
    made, rng = sketch(4096, 4096, 4096), Random(0)
    start = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "stages": 2, "warps": 4, "group": 4}
    changed = dict.fromkeys(made.names, 0)
    for _ in range(500):
        child = sample.mutate(made, start, H200, rng)
        for name in made.names:
            changed[name] += child[name] != start[name]
    assert min(changed["tile_m"], changed["tile_n"]) > max(changed["warps"], changed["group"])
    assert all(changed.values())


@given(SKETCHES, SEEDS)
def test_neighbours_are_one_place_away_and_legal(made: Sketch, seed: int) -> None:
    choices = sample.random_choices(made, H200, Random(seed))
    assert choices is not None
    for near in sample.neighbours(made, choices, H200):
        [moved] = [choice for choice in made.choices if near[choice.name] != choices[choice.name]]
        places = [moved.domain.index(held[moved.name]) for held in (near, choices)]
        assert abs(places[0] - places[1]) == 1
        assert violation(made, near, H200) is None


def test_neighbours_are_all_of_them() -> None:
    made = sketch(4096, 4096, 4096)
    start = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "stages": 2, "warps": 4, "group": 4}
    assert len(sample.neighbours(made, start, H200)) == 2 * 5 + 1  # warps has one neighbour


@pytest.mark.parametrize("extents", [(1, 1, 1), (16, 16, 16)])
def test_nothing_legal_is_none(extents: tuple[int, int, int]) -> None:
    assert sample.random_choices(sketch(*extents, split=True), H200, Random(0)) is None


def test_a_choice_without_alternatives_is_left_alone() -> None:
    fixed: Any = Sketch("by.hand", sketch(1, 1, 1).workload, (), (), sketch(1, 1, 1).structure)
    assert sample.mutate(fixed, {}, H200, Random(0)) == {}
