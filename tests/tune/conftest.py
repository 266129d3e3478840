"""Strategies and devices that the tests of tuning share: quick, and the same for equal seeds."""

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace

import pytest

from autosched.spec import from_data
from autosched.tune.evolution import EvolutionSearch, EvolutionSettings
from autosched.tune.grid import Grid
from autosched.tune.random_search import RandomSearch
from autosched.tune.strategy import Strategy
from cost_model.random_model import RandomModel
from cost_model.settings import ModelSettings
from cost_model.xgboost_model import XGBoostModel
from measure.fake_device import FakeDevice
from measure.measurement import Failed, Failure, Measurement
from measure.service import OnResult, Pending
from search_space import target as targets
from search_space.program import Program
from search_space.rules import sketches

H200 = targets.load("h200")
SPEC = {"op": "matmul", "m": 32, "n": 64, "k": 128, "dtype": "float16"}
TASK = from_data("a test", SPEC)
#: Few, so that runs are quick: one by pointers, one persistent, one by descriptors.
SKETCHES = [sketches(TASK.workload, H200)[n] for n in (0, 1, 3)]
GRIDS = [Grid(sketch, H200) for sketch in SKETCHES]


def strategy(name: str, seed: int) -> Strategy:
    """A small one: a run of 30 trials takes some tens of milliseconds."""
    if name == "random":
        return RandomSearch(GRIDS, seed)
    model = (
        RandomModel(seed)
        if name == "chance"
        else XGBoostModel(seed, ModelSettings(bags=1, rounds=4))
    )
    settings = EvolutionSettings(horizon=40, population=32, generations=1)
    return EvolutionSearch(GRIDS, H200, model, seed, settings)


def landscape(seed: int, failures: float) -> Callable[[Program], float | Failed]:
    """Outcomes that seed and program decide; a share of them are failures of any kind."""

    def outcome(program: Program) -> float | Failed:
        rng = Random(f"{seed} {program.fingerprint}")
        if rng.random() < failures:
            return Failed(rng.choice(list(Failure)), "planted")
        return rng.lognormvariate(2.0, 0.5)

    return outcome


class Scrambled(FakeDevice):
    """Hands results in one by one, in an order that a seed decides, over all that is pending."""

    def __init__(self, outcome: Callable[[Program], float | Failed], seed: int) -> None:
        self.asked: list[str] = []
        super().__init__(lambda program: self._noted(program, outcome), library_us=12.0)
        self._rng = Random(seed)
        self._queue: list[tuple[Pending, int, Program]] = []

    def _noted(
        self, program: Program, outcome: Callable[[Program], float | Failed]
    ) -> float | Failed:
        self.asked.append(program.fingerprint)
        return outcome(program)

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        pending = Awaited(len(programs), on_result, self._deliver_until)
        self._queue += [(pending, n, program) for n, program in enumerate(programs)]
        return pending

    def _deliver_until(self, wanted: Pending) -> None:
        while not wanted.done:
            pending, index, program = self._queue.pop(self._rng.randrange(len(self._queue)))
            pending.deliver(index, self._measured(program))

    def _measured(self, program: Program) -> Measurement:
        return super().submit([program]).results()[0]


class Awaited(Pending):
    """Results that come only once somebody waits for them."""

    def __init__(
        self, count: int, on_result: OnResult | None, work: Callable[[Pending], None]
    ) -> None:
        super().__init__(count, on_result)
        self._work = work

    def results(self, timeout_s: float | None = None) -> list[Measurement]:
        self._work(self)
        return super().results(timeout_s)


@pytest.fixture(scope="session")
def small() -> SimpleNamespace:
    """What is above, for tests that cannot import it."""
    return SimpleNamespace(
        task=TASK,
        target=H200,
        strategy=strategy,
        landscape=landscape,
        scrambled=Scrambled,
        names=("random", "chance", "boosted"),
    )
