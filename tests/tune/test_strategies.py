"""What holds of every strategy, whatever it does, and what settings may be."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.landscape.landscape import place
from autosched.landscape.synthetic import synthetic
from autosched.te.operators import matmul
from autosched.tune import grid as grid_module
from autosched.tune import strategies
from autosched.tune.annealing import AnnealingSettings
from autosched.tune.candidate import Candidate, Key
from autosched.tune.evolution import EvolutionSettings
from autosched.tune.genetic import GeneticSettings
from autosched.tune.grid import Grid
from autosched.tune.recorded_grid import RecordedGrid
from autosched.tune.strategy import Strategy, Told
from cost_model import models
from cost_model.settings import BadSettings
from measure.measurement import Failed, Failure, Measurement, Timed, Timing
from search_space import target as targets
from search_space.limits import violation
from search_space.rules import sketches
from search_space.workload import Workload

H200 = targets.load("h200")


def grids(workload: Workload) -> list[Grid]:
    return [Grid(sketch, H200) for sketch in sketches(workload, H200)]


WIDE = grids(matmul(128, 128, 128, dtype="float16"))[:4]
TINY = grids(matmul(16, 32, 64, dtype="float16"))[:4]
LEGAL = sum(len(grid.survey(np.random.default_rng(0))) for grid in TINY)
#: Small, so that a search of some hundred trials takes little time.
SMALL: dict[str, dict[str, Any]] = {
    "evolution": {"population": 32, "generations": 1},
    "ansor": {"population": 32, "generations": 1, "warmup": 20, "initial": 8},
    "annealing": {"chains": 8, "steps": 4, "plan": 8},
    "forest": {"first": 12, "neighbours": 30, "trees": 4},
    "genetic": {"population": 8},
}
NAMES = [(name, SMALL.get(name, {})) for name in strategies.names()]
CASES = [
    *NAMES,
    ("annealing", {"on": "times", "chains": 4, "horizon": 40}),
    ("genetic", {"population": 8, "parents": "recent"}),
    ("evolution", {**SMALL["evolution"], "first": "random", "moves": "rejection"}),
    ("evolution", {**SMALL["evolution"], "restart_after": 4}),
]
IDS = [" ".join((name, *(k for k in held if k not in SMALL.get(name, {})))) for name, held in CASES]


def make(
    name: str, held: dict[str, Any], among: Sequence[Grid], seed: int = 0, **more: Any
) -> Strategy:
    model = models.make("xgboost", seed, {"rounds": 4, "bags": 1})
    return strategies.make(name, among, H200, model, seed, held, **more)


def outcome(candidate: Candidate, failures: float = 0.2) -> Measurement:
    """What the key decides: a failure, or a time that the tile has a say in."""
    rng = Random(str(candidate.key))
    if rng.random() < failures:
        return Failed(rng.choice(list(Failure)), "planted")
    us = 1 + abs(candidate.choices.get("tile_m", 64) - 64) / 64 + rng.random()
    return Timed(Timing(us, us, us, (us,)), None, None, 0.0, 0.0)


def search(strategy: Strategy, batches: Sequence[int], failures: float = 0.2) -> list[Candidate]:
    """Ask for batches, told of each when the next is on its way."""
    found: list[Candidate] = []
    pending: list[Candidate] = []
    for count in batches:
        asked = strategy.ask(count)
        assert len(asked) <= count
        strategy.tell([Told(c, outcome(c, failures)) for c in pending])
        pending = asked
        found += asked
    return found


@pytest.mark.parametrize(("name", "held"), CASES, ids=IDS)
def test_proposals_are_new_legal_and_depend_on_seed_and_outcomes_alone(
    name: str, held: dict[str, Any]
) -> None:
    runs = [search(make(name, held, WIDE, seed), [8, 8, 16, 16, 16]) for seed in (0, 0, 1)]
    for found in runs:
        assert len({candidate.key for candidate in found}) == len(found) == 64
        assert all(violation(c.sketch, c.choices, H200) is None for c in found)
    first, again, other = ([candidate.key for candidate in found] for found in runs)
    assert first == again
    assert (first == other) == (name in ("exhaustive", "analytic"))


@pytest.mark.parametrize(("name", "held"), CASES, ids=IDS)
def test_a_small_space_is_proposed_whole_and_then_nothing(name: str, held: dict[str, Any]) -> None:
    strategy = make(name, held, TINY)
    found = search(strategy, [32] * (LEGAL // 32 + 4))
    assert len({candidate.key for candidate in found}) == len(found) == LEGAL > 100
    assert strategy.ask(8) == []
    assert strategy.ask(0) == []


@pytest.mark.parametrize(("name", "held"), NAMES)
def test_failures_alone_stop_none(name: str, held: dict[str, Any]) -> None:
    assert len(search(make(name, held, TINY), [16] * 4, failures=1.0)) == 64


@pytest.mark.parametrize(("name", "held"), CASES, ids=IDS)
def test_a_landscape_is_proposed_whole_and_nothing_else(name: str, held: dict[str, Any]) -> None:
    spec = {"op": "matmul", "m": 256, "n": 512, "k": 1024, "dtype": "float16"}
    landscape = place(Path("made-up"), *synthetic(spec, 60, most_sketches=3))
    strategy = make(name, held, RecordedGrid.all_of(landscape))
    found = [candidate.key for candidate in search(strategy, [16] * 6)]
    assert sorted(found) == sorted(landscape.by_key)


@pytest.mark.parametrize(("name", "held"), CASES, ids=IDS)
def test_settings_say_all_that_a_strategy_was_made_with(name: str, held: dict[str, Any]) -> None:
    strategy = make(name, held, TINY)
    assert strategy.name == name
    said = strategy.settings
    for field in fields(strategies.settings_of(name)):
        assert said[field.name] == held.get(field.name, field.default)
    assert said.get("cost_model") == ("xgboost" if strategies.learns(name) else None)
    if strategies.learns(name):
        assert said["model_rounds"] == 4


@settings(max_examples=12)
@given(st.sampled_from(NAMES), st.integers(0, 2**31), st.lists(st.integers(0, 9), max_size=6))
def test_batches_of_any_size(named: tuple, seed: int, batches: list[int]) -> None:
    found = search(make(*named, TINY, seed), batches)
    assert len({candidate.key for candidate in found}) == len(found) == sum(batches)


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("evolution", {"population": 1}, "population is a whole number from 2 to 1.04858e"),
        ("evolution", {"epsilon": 1.5}, "epsilon is a number from 0 to 1, not 1.5"),
        ("evolution", {"first": "best"}, "first is one of random, analytic, nearest, all, not 'b"),
        ("evolution", {"horizon": True}, "horizon is a whole number"),
        ("genetic", {"mutations": 0.1}, "mutations is one of population, elites, .* not a name"),
        ("random", {"population": 1}, "population is not known: there are none"),
        ("annealing", {"hot": float("nan")}, "hot is a number"),
    ],
)
def test_settings_that_are_none(name: str, held: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSettings, match=f"the setting {words}"):
        strategies.check(name, held)


def test_settings_may_be_whole_numbers_and_none() -> None:
    assert EvolutionSettings(epsilon=0, horizon=None).epsilon == 0
    assert AnnealingSettings(on="times").horizon is None
    assert GeneticSettings(tournament=1).tournament == 1


def test_exhaustive_refuses_what_it_cannot_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "WHOLE", 1000)
    with pytest.raises(BadSettings, match=f"exhaustive: {TINY[1].sketch.name} does"):
        make("exhaustive", {}, TINY)
    assert len(make("exhaustive", {}, TINY[:1]).ask(64)) == 21


def test_a_learner_without_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a cost model"):
        strategies.make("ansor", TINY, H200, None, 0, {})
    assert strategies.make("genetic", TINY, H200, None, 0, {}).name == "genetic"


def keys(grid: Grid, count: int) -> list[Key]:
    codes = grid.random(count, np.random.default_rng(5))
    return [(grid.sketch.name, tuple(row)) for row in grid.values(codes).tolist()]


def test_the_first_round_takes_what_did_well_elsewhere_in_its_order() -> None:
    known = keys(WIDE[1], 6)
    strangers: list[Key] = [("of another rule", (1,)), (WIDE[0].sketch.name, (1, 2))]
    nearest = [*strangers, *known]
    strategy = make("evolution", SMALL["evolution"], WIDE, nearest=nearest)
    batches = [strategy.ask(16), strategy.ask(16)]
    taken = [[c.key for c in batch if c.origin == "nearest"] for batch in batches]
    assert taken == [known[:4], known[4:]]
    assert {c.origin for c in batches[0]} == {"nearest", "analytic", "random"}
    assert strategy.settings["nearest_best"][2].split()[0] == WIDE[1].sketch.name
    held = {**SMALL["evolution"], "first": "nearest"}
    alone = make("evolution", held, WIDE, nearest=known).ask(16)
    assert {c.origin for c in alone} == {"nearest", "random"}


@pytest.mark.parametrize(
    ("first", "origins"), [("random", {"random"}), ("analytic", {"analytic", "random"})]
)
def test_first_rounds_hold_what_they_are_said_to(first: str, origins: set[str]) -> None:
    held = {**SMALL["evolution"], "first": first}
    asked = make("evolution", held, WIDE, nearest=keys(WIDE[0], 3)).ask(16)
    assert {c.origin for c in asked} == origins


def test_a_search_that_is_stuck_leaves_the_best_it_knows() -> None:
    """Its populations are drawn afresh, and none of the analytic model's is in them."""
    flat = Timed(Timing(1.0, 1.0, 1.0, (1.0,)), None, None, 0.0, 0.0)
    held = {"population": 64, "generations": 0, "polish": 0.0, "epsilon": 0.0}
    far = []
    for restart in (None, 8):
        strategy = make("evolution", {**held, "restart_after": restart}, WIDE)
        shortlisted = {c.key for c in make("analytic", {}, WIDE).ask(200)}
        for _ in range(3):
            strategy.tell([Told(c, flat) for c in strategy.ask(12)])
        far.append(sum(c.key not in shortlisted for c in strategy.ask(12)))
    assert far[0] < far[1]
