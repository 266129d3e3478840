"""The loop: what it proposes, logs and keeps, on a device that makes its times up at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autosched.spec.task import Task
from autosched.te.operators import matmul
from autosched.tune.candidate import Candidate
from autosched.tune.events import Event, FinalsDone, RoundDone, RunDone, RunStarted, TrialDone
from autosched.tune.evolution import EvolutionSearch, EvolutionSettings
from autosched.tune.grid import Grid
from autosched.tune.predicted import PredictedTimes
from autosched.tune.random_search import RandomSearch
from autosched.tune.result import TuningResult
from autosched.tune.strategy import Strategy, Told
from autosched.tune.tuner import tune
from cost_model.settings import ModelSettings
from cost_model.xgboost_model import XGBoostModel
from measure.fake_device import FakeDevice
from measure.log import LogWriter, best, read
from measure.measurement import Failed, Failure, Timed
from measure.record import FinalRecord, RunRecord, StopRecord
from search_space import target as targets
from search_space.program import Program
from search_space.rules import sketches

H200 = targets.load("h200")
WORKLOAD = matmul(256, 256, 512, dtype="float16")
TASK = Task("task", WORKLOAD, "argument:1", spec={"op": "matmul"})
GRIDS = [Grid(sketch, H200) for sketch in sketches(WORKLOAD, H200)]


def time_of(program: Program) -> float:
    """A time that the text decides: between 10 and 20 us."""
    return 10 + int(program.fingerprint, 16) % 1000 / 100


def evolution(seed: int = 0, horizon: int | None = None) -> EvolutionSearch:
    model = XGBoostModel(seed, ModelSettings(bags=2, rounds=20))
    settings = EvolutionSettings(horizon=horizon, population=64, generations=2)
    return EvolutionSearch(GRIDS, H200, model, seed, settings)


def run(
    strategy: Strategy,
    outcome: Callable[[Program], float | Failed] = time_of,
    log: LogWriter | None = None,
    **options: Any,
) -> tuple[TuningResult, list[Event]]:
    events: list[Event] = []
    seen = options.pop("events", events.append)
    held = {"trials": 24, "batch": 8, **options}
    with FakeDevice(outcome, library_us=12.0) as device:
        return tune(TASK, H200, device, strategy, log, events=seen, **held), events


class Recording:
    """A strategy that notes what it was asked and told, and passes both on."""

    def __init__(self, inner: Strategy) -> None:
        self.name = inner.name
        self.sketches = inner.sketches
        self.settings = inner.settings
        self.inner = inner
        self.calls: list[str] = []
        self.told: list[Told] = []

    def ask(self, count: int) -> list[Candidate]:
        self.calls.append(f"ask {count}")
        return self.inner.ask(count)

    def tell(self, told: Sequence[Told]) -> None:
        self.calls.append(f"tell {len(told)}")
        self.told += told
        self.inner.tell(told)


def test_what_is_asked_for_depends_on_outcomes_two_batches_back() -> None:
    strategy = Recording(RandomSearch(GRIDS, 0))
    run(strategy, trials=32)
    assert strategy.calls == [
        *("ask 4", "ask 4", "tell 4", "ask 8", "tell 4", "ask 8", "tell 8", "ask 8"),
        *("tell 8", "tell 8"),
    ]


def test_told_in_the_order_of_proposals() -> None:
    strategy = Recording(evolution())
    result, _ = run(strategy)
    proposed = [trial.candidate.key for trial in result.trials]
    assert [told.candidate.key for told in strategy.told] == proposed
    assert [trial.number for trial in result.trials] == list(range(24))


@pytest.mark.parametrize("make", [evolution, lambda seed: RandomSearch(GRIDS, seed)])
def test_equal_seeds_propose_the_same(make: Callable[[int], Strategy]) -> None:
    first, again, other = (
        [trial.candidate.key for trial in run(make(seed))[0].trials] for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_no_schedule_and_no_program_is_tried_twice() -> None:
    result, _ = run(evolution(), trials=48)
    keys = [trial.candidate.key for trial in result.trials]
    programs = [trial.program.fingerprint for trial in result.trials if trial.program]
    assert len(set(keys)) == len(keys) == 48
    assert len(set(programs)) == len(programs)


def test_a_program_known_by_another_schedule_is_dropped_and_replaced() -> None:
    result, _ = run(Recording(Twice(RandomSearch(GRIDS, 0))), trials=16)
    programs = [trial.program.fingerprint for trial in result.trials if trial.program]
    assert len(programs) == len(set(programs)) == 16


class Twice:
    """A strategy that says everything twice."""

    name = "twice"

    def __init__(self, inner: Strategy) -> None:
        self.sketches = inner.sketches
        self.settings = inner.settings
        self.inner = inner

    def ask(self, count: int) -> list[Candidate]:
        return [candidate for candidate in self.inner.ask(count // 2 + 1) for _ in (0, 1)][:count]

    def tell(self, told: Sequence[Told]) -> None:
        self.inner.tell(told)


def test_the_winner_is_the_best_by_comparison() -> None:
    result, events = run(evolution())
    fastest = min(trial.latency_us or 99 for trial in result.trials)
    assert result.best is not None
    assert result.best.timing.latency_us == fastest
    assert result.best.ratio_to_library is not None
    assert result.best.ratio_to_library.median == pytest.approx(12.0 / fastest)
    assert [e.comparison for e in events if isinstance(e, FinalsDone)] == [result.comparison]
    assert result.comparison is not None
    assert len(result.comparison.entrants) == 8


def test_events_count_what_happened() -> None:
    planted = Failed(Failure.COMPILE, "planted")
    result, events = run(
        evolution(), lambda p: planted if int(p.fingerprint, 16) % 4 == 0 else time_of(p)
    )
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunDone)
    done = [e for e in events if isinstance(e, TrialDone)]
    failed = sum(isinstance(e.measurement, Failed) for e in done)
    last = [e for e in events if isinstance(e, RoundDone)][-1].progress
    assert (last.trials, last.total, last.built) == (24, 24, 24 - failed)
    assert last.failures == result.failures == {"compile": failed}
    assert failed > 0
    times = [e.measurement.latency_us for e in done if isinstance(e.measurement, Timed)]
    improved = [e.measurement.latency_us for e in done if e.improved and e.measurement]  # type: ignore[union-attr]
    assert improved == sorted(improved, reverse=True)
    assert last.incumbent_us == improved[-1] == min(times)


def test_all_failed_is_no_best_and_a_census() -> None:
    result, _ = run(evolution(), lambda _: Failed(Failure.CORRECTNESS, "off by one"), trials=40)
    assert result.best is None
    assert result.comparison is None
    assert result.failures == {"correctness": 40}
    assert result.stopped == "trials"


def test_every_attempt_is_a_line_of_the_log(tmp_path: Path) -> None:
    planted = Failed(Failure.RUNTIME, "planted")
    with LogWriter(tmp_path / "log.jsonl") as log:
        result, _ = run(
            evolution(), lambda p: planted if int(p.fingerprint, 16) % 5 == 0 else time_of(p), log
        )
    contents = read(tmp_path / "log.jsonl")
    assert contents.damage == ()
    start, *_, final, stop = contents.records
    assert isinstance(start, RunRecord)
    assert (start.spec, start.options["trials"]) == ({"op": "matmul"}, 24)
    assert isinstance(final, FinalRecord)
    assert isinstance(stop, StopRecord)
    assert (stop.reason, stop.trials) == ("trials", 24)
    logged = {record.trial: record.measured() for record in contents.trials}
    assert logged == {trial.number: trial.measurement for trial in result.trials}
    [winner] = best(contents.records).values()
    assert result.best is not None
    assert winner.trial == result.best.trial.number
    assert winner.schedule == result.best.trial.candidate.schedule.to_data()


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, RoundDone):
            raise KeyboardInterrupt

    with LogWriter(tmp_path / "log.jsonl") as log:
        result, _ = run(evolution(), log=log, events=interrupt)
    assert result.interrupted
    assert len(result.trials) == 8  # the second batch was on its way
    assert result.best is not None
    contents = read(tmp_path / "log.jsonl")
    assert len(contents.trials) == 8
    assert isinstance(contents.records[-1], StopRecord)
    assert contents.records[-1].reason == "interrupted"


def test_an_illegal_schedule_is_a_failure_of_constraints() -> None:
    result, _ = run(Illegal(RandomSearch(GRIDS, 0)))
    refused = [t for t in result.trials if t.program is None]
    assert len(refused) == 4
    assert all(isinstance(t.measurement, Failed) for t in refused)
    assert result.failures == {"constraints": 4}
    assert len(result.trials) == 24


class Illegal:
    """A strategy whose first candidate of a batch has steps that may not apply."""

    name = "illegal"

    def __init__(self, inner: Strategy) -> None:
        self.sketches = inner.sketches
        self.settings = inner.settings
        self.inner = inner

    def ask(self, count: int) -> list[Candidate]:
        asked = self.inner.ask(count)
        first = asked[0]
        sketch = first.sketch
        steps = (*sketch.steps, *sketch.steps)
        broken = type(sketch)(
            sketch.name + ".twice", sketch.workload, steps, sketch.choices, sketch.structure
        )
        return [Candidate(broken, first.choices, 0.0, "random"), *asked[1:]]

    def tell(self, told: Sequence[Told]) -> None:
        self.inner.tell(told)


def test_a_spent_budget_ends_the_run() -> None:
    ticks = iter(range(10**6))
    result, _ = run(evolution(), trials=10**6, budget_s=80.0, clock=lambda: float(next(ticks)))
    assert result.stopped == "budget"
    assert 8 <= len(result.trials) < 80


def test_no_gain_for_long_ends_the_run() -> None:
    result, _ = run(evolution(), lambda _: 10.0, trials=200, early_stopping=20)
    assert result.stopped == "early stopping"
    assert 20 <= len(result.trials) < 60


def test_an_exhausted_space_ends_the_run() -> None:
    tiny = sketches(matmul(1, 1, 1, dtype="float16"), H200)
    task = Task("task", tiny[0].workload, "argument:1")
    with FakeDevice(time_of) as device:
        strategy = RandomSearch([Grid(sketch, H200) for sketch in tiny], 0)
        result = tune(task, H200, device, strategy, None, trials=10**4, batch=512)
    assert result.stopped == "exhausted"
    assert result.best is not None


def test_predicted_times_repeat_and_scatter_about_the_analytic_ones() -> None:
    predictions = PredictedTimes(H200, 0)
    result, _ = run(evolution(), lambda p: predictions(p), predictions=predictions)
    again = PredictedTimes(H200, 0)
    for trial in result.trials:
        assert trial.program is not None
        again.learn(trial.candidate, trial.program)
        assert again(trial.program) == trial.latency_us
