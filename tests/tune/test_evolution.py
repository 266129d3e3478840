"""Evolution: what it proposes first, and that it finds more than chance does."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from autosched.te.operators import matmul
from autosched.tune.candidate import Candidate
from autosched.tune.evolution import EvolutionSearch, EvolutionSettings
from autosched.tune.grid import Grid
from autosched.tune.random_search import RandomSearch
from autosched.tune.strategy import Strategy, Told
from cost_model.analytic_model import predict_us
from cost_model.random_model import RandomModel
from cost_model.settings import ModelSettings
from cost_model.xgboost_model import XGBoostModel
from measure.measurement import Failed, Failure, Measurement, Timed, Timing
from search_space import target as targets
from search_space.limits import violation
from search_space.rules import sketches
from search_space.workload import Workload

H200 = targets.load("h200")


def grids(workload: Workload) -> list[Grid]:
    return [Grid(sketch, H200) for sketch in sketches(workload, H200)]


DECODE = grids(matmul(16, 8192, 8192, dtype="bfloat16", trans_b=True))
SQUARE = grids(matmul(1024, 1024, 1024, dtype="float16"))
QUICK = EvolutionSettings(population=128)


def bent_us(candidate: Candidate) -> float:
    """The analytic time, wrong by up to a factor of 1.5 in ways that depend on the choices."""
    row = [[candidate.choices[name] for name in candidate.sketch.names]]
    us = float(predict_us(candidate.sketch, np.array(row, np.int64), H200)[0])
    for name in ("stages", "warps", "tile_k", "tile_n"):
        us *= Random(f"{name}={candidate.choices[name]}").uniform(0.8, 1.2)
    return us


def outcome(candidate: Candidate) -> Measurement:
    if Random(str(candidate.key)).random() < 0.05:
        return Failed(Failure.COMPILE, "planted")
    us = bent_us(candidate)
    return Timed(Timing(us, us, us, (us,)), None, None, 0.0, 0.0)


def search(strategy: Strategy, trials: int, batch: int = 32) -> list[Told]:
    told: list[Told] = []
    while len(told) < trials:
        asked = strategy.ask(batch)
        held = [Told(candidate, outcome(candidate)) for candidate in asked]
        strategy.tell(held)
        told += held
    return told


def best_us(told: list[Told]) -> float:
    return min(t.latency_us for t in told if t.latency_us is not None)


@pytest.mark.parametrize("made", [DECODE, SQUARE], ids=["decode", "square"])
def test_the_first_batch_is_legal_and_spread(made: list[Grid]) -> None:
    batch = EvolutionSearch(made, H200, RandomModel(0), 0).ask(32)
    assert len(batch) == len({candidate.key for candidate in batch}) == 32
    assert all(violation(c.sketch, c.choices, H200) is None for c in batch)
    analytic = [c for c in batch if c.origin == "analytic"]
    blocks = {
        (c.sketch.name, *(c.choices.get(n) for n in ("tile_m", "tile_n", "tile_k", "split")))
        for c in analytic
    }
    assert len(analytic) == len(blocks) == 20
    assert analytic[0].score == max(c.score for c in batch)
    assert {c.origin for c in batch} == {"analytic", "random"}


def test_every_sketch_that_may_win_is_in_the_first_batch() -> None:
    batch = EvolutionSearch(SQUARE, H200, RandomModel(0), 0).ask(32)
    analytic = [c for c in batch if c.origin == "analytic"]
    near = {c.sketch.name for c in analytic if c.score > analytic[0].score - np.log(1.3)}
    assert {"contraction.pointer", "contraction.descriptor"} <= near
    assert len(near) >= 4


def test_later_batches_polish_breed_and_draw() -> None:
    strategy = EvolutionSearch(SQUARE, H200, XGBoostModel(0, ModelSettings(rounds=20)), 0, QUICK)
    search(strategy, 32)
    batch = strategy.ask(32)
    counts = {o: sum(c.origin == o for c in batch) for o in ("polish", "evolution", "random")}
    assert counts == {"polish": 6, "evolution": 24, "random": 2}
    assert all(violation(c.sketch, c.choices, H200) is None for c in batch)


def test_polishing_grows_late() -> None:
    settings = replace(QUICK, horizon=50)
    strategy = EvolutionSearch(SQUARE, H200, XGBoostModel(0, ModelSettings(rounds=20)), 0, settings)
    search(strategy, 32)
    assert sum(c.origin == "polish" for c in strategy.ask(32)) == 12


def test_failures_alone_do_not_stop_it() -> None:
    strategy = EvolutionSearch(SQUARE, H200, XGBoostModel(0, ModelSettings(rounds=20)), 0, QUICK)
    failed = Failed(Failure.RUNTIME, "planted")
    for _ in range(3):
        asked = strategy.ask(16)
        assert len(asked) == 16
        strategy.tell([Told(candidate, failed) for candidate in asked])


def test_a_small_space_is_proposed_whole_and_then_nothing() -> None:
    tiny = grids(matmul(16, 16, 32, dtype="float16"))
    settings = EvolutionSettings(population=64, generations=2)
    strategy = EvolutionSearch(tiny, H200, RandomModel(0), 0, settings)
    found: set = set()
    for _ in range(40):
        batch = strategy.ask(32)
        keys = {candidate.key for candidate in batch}
        assert not keys & found
        found |= keys
        if not batch:
            break
    legal = sum(len(grid.survey(np.random.default_rng(0))) for grid in tiny)
    assert len(found) == legal > 20
    assert strategy.ask(8) == []


def test_it_beats_random_search_on_a_landscape_that_the_analytic_model_gets_wrong() -> None:
    ratios = []
    for seed in range(3):
        settings = EvolutionSettings(population=256, horizon=128)
        model = XGBoostModel(seed, ModelSettings(rounds=60))
        guided = EvolutionSearch(SQUARE, H200, model, seed, settings)
        random = RandomSearch(SQUARE, seed)
        ratios.append(best_us(search(random, 128)) / best_us(search(guided, 128)))
    assert min(ratios) > 1.0
    assert np.mean(ratios) > 1.1
