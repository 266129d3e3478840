"""Several runs take turns: by outcomes alone, whatever interrupts them; nothing is done twice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.assemble import Wishes, make_strategy
from autosched.codegen.render import render
from autosched.spec import from_data
from autosched.tune import course
from autosched.tune.events import Event, RoundStarted, TrialDone
from autosched.tune.identity import ResumeRefused
from autosched.tune.options import Options
from autosched.tune.recorded import RecordedRun, last_run, runs
from autosched.tune.replay import replay
from autosched.tune.running import Running
from autosched.tune.scheduler import make
from autosched.tune.suite import Bounds, Member, SuiteResult, stake_of, tune_suite
from autosched.tune.tuner import prepare
from autosched.tune.turns import replay_turns, turns_of
from measure.log import LogWriter, line_of, read
from measure.record import FinalRecord, RoundRecord, StopRecord, SuiteRecord
from search_space import target as targets
from search_space.program import Program
from search_space.schedule import Schedule
from search_space.target import Target
from search_space.workload import Workload

H200 = targets.load("h200")
BATCH = 4
TASKS = [
    from_data("a test", {"op": "matmul", "m": m, "n": 64, "k": k, "dtype": "float16"})
    for m, k in ((32, 128), (64, 128), (48, 48))
]


class Suite:
    """Three searches on landscapes of their own, run and run again on one log."""

    def __init__(
        self, small: SimpleNamespace, log: Path, failures: float = 0.2, luck: int = 7
    ) -> None:
        self.small = small
        self.log = log
        self.failures = failures
        self.luck = luck
        self.asked: list[str] = []
        self.seen: list[tuple[int, Event]] = []

    def run(
        self,
        *,
        resume: bool = False,
        order: int = 0,
        scheduler: str = "gradient",
        total: int | None = 40,
        budget_s: float | None = None,
        events: Callable[[int, Event], None] = lambda _, __: None,
        **options: Any,
    ) -> SuiteResult:
        self.asked, self.seen = [], []
        records = read(self.log).records if resume else ()
        held = [last_run(runs(records), task.workload.key, "h200") for task in TASKS]
        how = {"trials": 1000, "batch": BATCH, "finals": 2, "seed": 0, **options}

        def hear(n: int, event: Event) -> None:
            self.seen.append((n, event))
            events(n, event)

        with LogWriter(self.log) as log:
            members = [
                self._member(n, log, Options(**how), held[n], order) for n in range(len(TASKS))
            ]
            return tune_suite(
                members,
                make(scheduler, [member.stake for member in members], {}),
                log,
                Bounds(total, budget_s),
                recorded=turns_of(records, [run and run.start.run for run in held]),
                events=hear,
                clock=self._clock,
            )

    def _clock(self) -> float:
        """A second for every batch handed over."""
        return float(sum(isinstance(event, RoundStarted) for _, event in self.seen))

    def _member(
        self, n: int, log: LogWriter, options: Options, resume: RecordedRun | None, order: int
    ) -> Member:
        task = TASKS[n]
        name = resume.start.run if resume else f"{task.workload.key}-{self.log.stat().st_size}"

        def open_run(events: Callable[[Event], None]) -> Running:
            device = self.small.scrambled(self.small.landscape(self.luck + n, self.failures), order)
            device.asked = self.asked
            strategy = make_strategy(task.workload, H200, Wishes(options, "random"))
            return prepare(
                task, H200, device, strategy, log, options, run=name, resume=resume, events=events
            )

        return Member(task, stake_of(task.workload, H200, 1.0 + n), name, open_run, resume)

    def recorded(self, n: int) -> RecordedRun:
        found = last_run(runs(read(self.log).records), TASKS[n].workload.key, "h200")
        assert found is not None
        return found

    def turns(self) -> list[tuple[int, int]]:
        """The turns of the log: whose, and which of his."""
        records = read(self.log).records
        held = [last_run(runs(records), task.workload.key, "h200") for task in TASKS]
        return list(turns_of(records, [run and run.start.run for run in held]))

    def proposals(self) -> list[list[tuple[Any, ...]]]:
        found = [self.recorded(n).trials for n in range(len(TASKS))]
        return [
            [(n, held[n].round, held[n].schedule, held[n].program) for n in sorted(held)]
            for held in found
        ]

    def differences(self) -> list[str | None]:
        """What replaying says of each run, and then of each session."""
        wishes = Wishes(Options(trials=1000, batch=BATCH), "random")
        records = read(self.log).records
        stakes = {
            self.recorded(n).start.run: stake_of(task.workload, H200)
            for n, task in enumerate(TASKS)
        }
        return [verdict.difference for verdict in replay_turns(records, stakes)] + [
            replay(
                self.recorded(n),
                task.workload,
                H200,
                make_strategy(task.workload, H200, wishes),
                BATCH,
            ).difference
            for n, task in enumerate(TASKS)
        ]


@pytest.fixture(scope="module", autouse=True)
def rendered_once() -> Iterator[None]:
    """Render each schedule once: runs go the same way many times here."""
    held: dict[tuple[str, str], Program] = {}

    def once(workload: Workload, schedule: Schedule, target: Target) -> Program:
        key = (workload.key, schedule.to_json())
        if key not in held:
            held[key] = render(workload, schedule, target)
        return held[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "render", once)
        yield


@pytest.fixture
def suite(small: SimpleNamespace, tmp_path: Path) -> Suite:
    return Suite(small, tmp_path / "log.jsonl")


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scheduler=st.sampled_from(["gradient", "round-robin", "sequential"]),
    failures=st.sampled_from([0.0, 0.3]),
    luck=st.integers(0, 2**16),
    patience=st.sampled_from([None, 8]),
    cuts=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=3),
    torn=st.booleans(),
)
def test_interrupted_anywhere_turns_and_proposals_are_what_they_would_have_been(
    small: SimpleNamespace,
    tmp_path: Path,
    scheduler: str,
    failures: float,
    luck: int,
    patience: int | None,
    cuts: list[float],
    torn: bool,
) -> None:
    whole, cut = (
        Suite(small, tmp_path / f"{name}.jsonl", failures, luck) for name in ("whole", "cut")
    )
    for path in (whole.log, cut.log):
        path.unlink(missing_ok=True)
    # One after another would leave the last without a turn.
    bounds = {"scheduler": scheduler, "total": 40, "early_stopping": patience, "finals": 0}
    if scheduler == "sequential":
        bounds["trials"] = 15
    whole.run(**bounds)
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for turn, share in enumerate(cuts):
        kept = 1 + int(share * (len(lines) - 1))
        tail = lines[kept][: len(lines[kept]) // 2] if torn and kept < len(lines) else b""
        cut.log.write_bytes(b"".join(lines[:kept]) + tail)
        known = {record.program for record in read(cut.log).trials}
        cut.run(resume=True, order=turn + 1, **bounds)
        assert not known & set(cut.asked)
        lines = cut.log.read_bytes().splitlines(keepends=True)
    assert cut.turns() == whole.turns()
    assert cut.proposals() == whole.proposals()
    assert len(read(cut.log).trials) == sum(map(len, whole.proposals()))
    assert not any(cut.differences())


def test_the_bound_on_all_trials_is_exact_and_the_order_of_results_is_nothing(suite: Suite) -> None:
    found = []
    for order in range(3):
        suite.log.unlink(missing_ok=True)
        result = suite.run(total=37, order=order)
        assert sum(len(one.trials) for one in result.results if one) == 37
        assert result.stopped == "total trials"
        assert {one.stopped for one in result.results if one} == {"total trials"}
        assert set(result.states) == {"done"}
        assert sum(result.turns) == len(suite.turns())
        found.append((suite.turns(), suite.proposals()))
    assert found[0] == found[1] == found[2]
    assert not any(suite.differences())


def test_a_larger_bound_goes_on_with_the_turns_of_the_smaller_one(suite: Suite) -> None:
    suite.run(total=50)
    turns, proposals = suite.turns(), suite.proposals()
    suite.log.unlink()
    suite.run(total=31)
    assert len(read(suite.log).trials) == 31
    result = suite.run(resume=True, total=20, finals=0)
    assert (suite.asked, result.stopped) == ([], "total trials")
    suite.run(resume=True, total=50)
    assert (suite.turns(), suite.proposals()) == (turns, proposals)


def test_what_is_built_next_does_not_wait_for_what_is_measured(suite: Suite) -> None:
    suite.run()
    flying = most = 0
    for _, event in suite.seen:
        if isinstance(event, RoundStarted):
            flying += 1
        elif type(event).__name__ == "RoundDone":
            flying -= 1
        most = max(most, flying)
    assert most == 2


def test_each_run_is_what_it_would_be_alone(suite: Suite, tmp_path: Path) -> None:
    suite.run(total=60)
    together = suite.proposals()
    alone = Suite(suite.small, tmp_path / "alone.jsonl")
    alone.run(scheduler="sequential", total=None, trials=16)
    for shared, own in zip(together, alone.proposals(), strict=True):
        both = min(len(shared), len(own))
        assert both >= 8
        assert shared[:both] == own[:both]


def test_time_ends_all_and_who_had_no_turn_is_named(suite: Suite) -> None:
    # A second for every batch handed over: two are, and then time is spent.
    result = suite.run(total=None, budget_s=2.0)
    assert result.stopped == "budget"
    assert result.states == ("partial", "partial", "not started")
    assert result.results[2] is None
    assert result.turns == (1, 1, 0)
    finals = [r.run for r in read(suite.log).records if isinstance(r, FinalRecord)]
    assert len(finals) == 2
    whole = suite.run(resume=True, total=40, budget_s=None)
    assert set(whole.states) == {"done"}
    turns = suite.turns()
    suite.log.unlink()
    suite.run()
    assert suite.turns() == turns


def test_want_of_gains_ends_one_and_the_others_go_on(suite: Suite) -> None:
    result = suite.run(total=None, early_stopping=8, trials=30)
    assert result.stopped is None
    stopped = {one.stopped for one in result.results if one}
    assert stopped <= {"early stopping", "trials"}
    assert "early stopping" in stopped
    assert not any(suite.differences())


@pytest.mark.parametrize("after", [3, 25])
def test_an_interrupt_keeps_and_compares_what_there_is(suite: Suite, after: int) -> None:
    count = 0

    def interrupt(_: int, event: Event) -> None:
        nonlocal count
        count += isinstance(event, TrialDone)
        if count == after:
            count += 1
            raise KeyboardInterrupt

    result = suite.run(events=interrupt)
    assert result.interrupted
    records = read(suite.log).records
    for n, one in enumerate(result.results):
        assert (one is None) == (result.states[n] == "not started")
        if one is not None and one.trials:
            assert one.comparison is not None
            assert one.comparison.rounds <= 20
    stops = [r for r in records if isinstance(r, StopRecord)]
    assert "interrupted" in {stop.reason for stop in stops}
    assert sum(stop.trials for stop in stops) == len(read(suite.log).trials)
    suite.run(resume=True)
    assert not any(suite.differences())
    turns, proposals = suite.turns(), suite.proposals()
    suite.log.unlink()
    suite.run()
    assert (suite.turns(), suite.proposals()) == (turns, proposals)


def test_a_second_interrupt_compares_nothing_more(suite: Suite) -> None:
    def interrupt(_: int, event: Event) -> None:
        done = isinstance(event, TrialDone) and event.progress.trials == 5
        if done or type(event).__name__ == "FinalsStarted":
            raise KeyboardInterrupt

    result = suite.run(events=interrupt)
    assert result.interrupted
    assert all(one is None or one.comparison is None for one in result.results)
    assert not [r for r in read(suite.log).records if isinstance(r, FinalRecord)]


def test_a_session_is_a_line_that_says_who_shares_and_how(suite: Suite) -> None:
    suite.run(total=40)
    suite.run(resume=True, total=50)
    first, second = (r for r in read(suite.log).records if isinstance(r, SuiteRecord))
    assert (first.total_trials, second.total_trials) == (40, 50)
    assert first.runs == second.runs
    assert [run.start.run for run in runs(read(suite.log).records)] == list(first.runs)
    assert first.weights == (1.0, 2.0, 3.0)
    assert first.scheduler == "gradient"
    assert first.settings == {
        "alpha": 0.2,
        "beta": 2.0,
        "window": 3,
        "warm_up": 3,
        "epsilon": 0.05,
        "seed": 0,
    }


def test_one_run_that_cannot_go_on_stops_all_before_anything_is_written(suite: Suite) -> None:
    suite.run(total=40)
    before = suite.log.read_bytes()
    with pytest.raises(ResumeRefused, match="seed was 0 and is 3"):
        suite.run(resume=True, total=60, seed=3)
    assert suite.log.read_bytes() == before
    assert suite.asked == []


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_a_turn_that_does_not_follow_is_named(suite: Suite, scheduler: str) -> None:
    suite.run(scheduler=scheduler)
    assert not any(suite.differences())
    records = [*read(suite.log).records]
    # The last turn is said to have been given to another run.
    places = [n for n, r in enumerate(records) if isinstance(r, RoundRecord)]
    last = places[-1]
    other = next(records[n].run for n in places if records[n].run != records[last].run)
    records[last] = records[last].model_copy(update={"run": other, "round": 90})
    suite.log.write_bytes(b"".join(line_of(record) for record in records))
    first, *_ = suite.differences()
    assert first is not None
    assert first.startswith(f"turn {len(places) - 1}: the log holds round 90 of {other}; ")


def test_a_scheduler_that_a_log_makes_up_is_named(suite: Suite) -> None:
    suite.run()
    change = {"settings": {"alpha": 7.0}}
    records = [
        r.model_copy(update=change) if isinstance(r, SuiteRecord) else r
        for r in read(suite.log).records
    ]
    suite.log.write_bytes(b"".join(line_of(record) for record in records))
    first, *_ = suite.differences()
    assert first == "gradient: alpha is a bounded number, not 7.0"
