"""A run that goes on: the proposals of one that was never interrupted, and nothing done twice."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.tune.events import Event, RunStarted, TrialDone
from autosched.tune.identity import ResumeRefused
from autosched.tune.recorded import RecordedRun, runs
from autosched.tune.replay import replay
from autosched.tune.result import TuningResult
from autosched.tune.tuner import tune
from measure.disk import Disk, StorageError
from measure.log import LogWriter, line_of, read
from measure.measurement import Failed
from measure.record import ResumeRecord, RoundRecord, StopRecord, TrialRecord
from measure.service import DeviceInfo
from search_space.program import Program

BATCH = 6


class Case:
    """One search on one landscape, run and run again on one log."""

    def __init__(
        self,
        small: SimpleNamespace,
        log: Path,
        name: str = "chance",
        failures: float = 0.2,
        luck: int = 7,
    ) -> None:
        self.small = small
        self.log = log
        self.name = name
        self.outcome = small.landscape(luck, failures)
        self.asked: list[str] = []
        self.events: list[Event] = []

    def run(self, *, resume: bool = False, seed: int = 0, order: int = 0, **options: Any):
        return self.result(resume=resume, seed=seed, order=order, **options).trials

    def result(
        self, *, resume: bool, seed: int = 0, order: int = 0, **options: Any
    ) -> TuningResult:
        device = self.small.scrambled(self.outcome, order)
        self.asked = device.asked
        going_on = self.recorded() if resume else None
        strategy = options.pop("strategy", None) or self.small.strategy(self.name, seed)
        held = {"trials": 24, "batch": BATCH, "finals": 0, "seed": seed, **options}
        disk = held.pop("disk", None)
        seen = held.pop("events", self.events.append)
        with device, LogWriter(self.log, disk) as log:
            return tune(
                self.small.task,
                self.small.target,
                device,
                strategy,
                log,
                resume=going_on,
                events=seen,
                **held,
            )

    def recorded(self) -> RecordedRun:
        return runs(read(self.log).records)[-1]

    def proposals(self) -> list[tuple[Any, ...]]:
        held = self.recorded().trials
        return [(n, held[n].round, held[n].schedule, held[n].program) for n in sorted(held)]

    def verdict(self):
        strategy = self.small.strategy(self.name, 0)
        return replay(self.recorded(), self.small.task.workload, self.small.target, strategy, BATCH)


@pytest.fixture
def case(small: SimpleNamespace, tmp_path: Path) -> Case:
    return Case(small, tmp_path / "log.jsonl")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["random", "chance", "boosted"]),
    failures=st.sampled_from([0.0, 0.3, 1.0]),
    luck=st.integers(0, 2**16),
    order=st.integers(0, 2**16),
    cuts=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=3),
    torn=st.booleans(),
)
def test_interrupted_anywhere_it_proposes_what_it_would_have(
    small: SimpleNamespace,
    tmp_path: Path,
    name: str,
    failures: float,
    luck: int,
    order: int,
    cuts: list[float],
    torn: bool,
) -> None:
    whole = Case(small, tmp_path / "whole.jsonl", name, failures, luck)
    cut = Case(small, tmp_path / "cut.jsonl", name, failures, luck)
    for path in (whole.log, cut.log):
        path.unlink(missing_ok=True)
    whole.run(order=order)
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for turn, share in enumerate(cuts):
        # The first line is there, the last is not, of the next one perhaps a part.
        kept = 1 + int(share * (len(lines) - 1))
        tail = lines[kept][: len(lines[kept]) // 2] if torn and kept < len(lines) else b""
        cut.log.write_bytes(b"".join(lines[:kept]) + tail)
        known = {record.program for record in read(cut.log).trials}
        cut.run(resume=True, order=order + turn + 1)
        assert not known & set(cut.asked)
        lines = cut.log.read_bytes().splitlines(keepends=True)
    assert cut.proposals() == whole.proposals()
    numbers = [record.trial for record in read(cut.log).trials]
    assert sorted(numbers) == list(range(24))
    assert cut.verdict().difference is None


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(1, 20), second=st.integers(1, 30))
def test_a_bound_on_trials_changes_nothing_that_is_proposed(
    small: SimpleNamespace, tmp_path: Path, first: int, second: int
) -> None:
    straight, bent = (Case(small, tmp_path / f"{n}.jsonl") for n in ("straight", "bent"))
    for path in (straight.log, bent.log):
        path.unlink(missing_ok=True)
    straight.run(trials=30)
    bent.run(trials=first)
    bent.run(resume=True, trials=second)
    assert len(bent.proposals()) == max(first, second)
    bent.run(resume=True, trials=30)
    assert bent.proposals() == straight.proposals()
    assert bent.verdict().difference is None


@pytest.mark.parametrize("after", [1, 4, 9, 17])
def test_an_interrupt_is_a_line_and_the_run_goes_on(case: Case, after: int) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, TrialDone) and event.progress.trials == after:
            raise KeyboardInterrupt

    result = case.result(resume=False, events=interrupt)
    assert result.interrupted
    stop = read(case.log).records[-1]
    assert isinstance(stop, StopRecord)
    assert (stop.reason, stop.trials) == ("interrupted", len(result.trials))
    assert after <= stop.trials < 24
    result = case.result(resume=True)
    assert (result.stopped, len(result.trials), result.recorded) == ("trials", 24, stop.trials)
    assert case.verdict().difference is None
    [going_on] = [r for r in read(case.log).records if isinstance(r, ResumeRecord)]
    assert going_on.trials == stop.trials


def test_a_full_disk_ends_a_run_that_goes_on_when_there_is_room(case: Case) -> None:
    class Full(Disk):
        room = 18

        def write(self, descriptor: int, data: bytes) -> int:
            self.room -= 1
            if self.room < 0:
                super().write(descriptor, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(descriptor, data)

    with pytest.raises(StorageError, match="ENOSPC"):
        case.run(disk=Full())
    synced = case.log.read_bytes()
    assert synced.count(b"\n") == 18
    case.run(resume=True)
    assert case.log.read_bytes().startswith(synced)
    proposals = case.proposals()
    case.log.unlink()
    case.run()
    assert case.proposals() == proposals


def test_want_of_gains_ends_a_run_at_the_same_trial_whatever_came_first(case: Case) -> None:
    ends = set()
    for order in range(3):
        case.log.unlink(missing_ok=True)
        result = case.result(resume=False, order=order, trials=500, early_stopping=12)
        assert result.stopped == "early stopping"
        assert case.verdict().difference is None
        ends.add(len(result.trials))
    assert len(ends) == 1


def test_a_run_that_stopped_goes_on_under_a_longer_patience(case: Case) -> None:
    case.run(trials=500, early_stopping=12)
    count = len(case.recorded().trials)
    again = case.result(resume=True, trials=500, early_stopping=12)
    assert (again.stopped, len(again.trials), case.asked) == ("early stopping", count, [])
    longer = case.result(resume=True, trials=count + 20, early_stopping=None)
    assert (longer.stopped, len(longer.trials)) == ("trials", count + 20)
    assert case.verdict().difference is None


def test_times_to_give_up_above_follow_from_outcomes_told(case: Case) -> None:
    case.run(order=1)
    first = [r for r in read(case.log).records if isinstance(r, RoundRecord)]
    assert [r.abort_above_us is None for r in first] == [True, True, *[False] * (len(first) - 2)]
    times = {t.trial: t.latency_us for t in read(case.log).trials if t.latency_us is not None}
    best_us = min(us for n, us in times.items() if n < BATCH // 2)
    assert first[2].abort_above_us == pytest.approx(3 * best_us)
    case.log.unlink()
    case.run(order=2)
    again = [r for r in read(case.log).records if isinstance(r, RoundRecord)]
    assert [r.abort_above_us for r in again] == [r.abort_above_us for r in first]


def test_finals_are_held_over_all_trials(case: Case) -> None:
    case.run(trials=12)
    result = case.result(resume=True, trials=24, finals=4)
    assert result.best is not None
    assert result.comparison is not None
    times = {t.number: t.latency_us for t in result.trials if t.latency_us is not None}
    assert result.best.trial.number == min(times, key=lambda n: (times[n], n))
    assert case.verdict().difference is None


def test_fewer_trials_than_there_are_end_with_finals(case: Case) -> None:
    case.run()
    case.events.clear()
    result = case.result(resume=True, trials=10, finals=2)
    assert (result.stopped, len(result.trials), result.recorded) == ("trials", 24, 24)
    assert result.comparison is not None
    started = next(e for e in case.events if isinstance(e, RunStarted))
    assert (started.trials, started.recorded) == (24, 24)
    assert not any(isinstance(e, TrialDone) for e in case.events)


def refused(case: Case, **options: Any) -> tuple[str, ...]:
    before = case.log.read_bytes()
    with pytest.raises(ResumeRefused) as error:
        case.run(resume=True, **options)
    assert case.log.read_bytes() == before
    assert case.asked == []
    return error.value.differences


def test_what_has_changed_is_named_and_nothing_is_measured(case: Case) -> None:
    case.run(trials=12)
    assert refused(case, seed=3) == ("seed was 0 and is 3",)
    assert refused(case, batch=16) == ("batch was 6 and is 16",)
    other = case.small.strategy("random", 0)
    assert refused(case, strategy=other) == ("strategy was evolution and is random",)
    boosted = case.small.strategy("boosted", 0)
    assert refused(case, strategy=boosted) == ("cost model was random and is xgboost",)


def rewritten(case: Case, change: Callable[[Any], Any]) -> None:
    """Let the lines of the log have been written otherwise."""
    records = [change(record) for record in read(case.log).records]
    case.log.write_bytes(b"".join(line_of(record) for record in records))


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("rendering",), 0, "the rendering version was 0 and is "),
        (("features",), "abc", "the schema of the features was abc and is "),
        (("target",), "abc", "the data of the target was abc and is "),
        (("workload",), "abc", "the workload's key was abc and is "),
        (("versions", "numpy"), "1.0", "the version of numpy was 1.0 and is "),
        (("versions", "xgboost"), "1.0", "the version of xgboost was 1.0 and is "),
        (("search", "horizon"), 7, "horizon was 7 and is 40"),
        (("search", "abort_factor"), 2.0, "abort factor was 2.0 and is 3.0"),
        (("sketches", "contraction.pointer"), "abc", "the sketch contraction.pointer has other "),
        (("sketches", "contraction.new"), "abc", "the sketch contraction.new is gone"),
    ],
)
def test_every_part_of_identity_counts(
    case: Case, place: tuple[str, ...], value: Any, sentence: str
) -> None:
    case.name = "boosted"
    case.run(trials=12)

    def change(record: Any) -> Any:
        if record.kind != "run":
            return record
        identity = {**record.identity}
        held = identity
        for name in place[:-1]:
            held[name] = {**held[name]}
            held = held[name]
        held[place[-1]] = value
        return record.model_copy(update={"identity": identity})

    rewritten(case, change)
    (found,) = refused(case)
    assert found.startswith(sentence)
    assert case.verdict().changed == (found,)


def test_every_sketch_is_part_of_identity(case: Case, small: SimpleNamespace) -> None:
    case.run(trials=12)
    strategy = small.strategy("chance", 0)
    first, *rest = strategy.sketches
    narrower = replace(first.choices[0], domain=first.choices[0].domain[:-1])
    changed = replace(first, choices=(narrower, *first.choices[1:]))

    class Other(type(strategy)):
        @property
        def sketches(self):
            return [changed, *rest]

    strategy.__class__ = Other
    (found,) = refused(case, strategy=strategy)
    assert found == f"the sketch {first.name} has other steps, choices or domains"


def test_another_device_does_not_go_on(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.run(trials=12)
    other = DeviceInfo("cuda", "NVIDIA H200", "h200", "1", "1", "3.7.0")
    monkeypatch.setattr(case.small.scrambled, "device", other)
    assert refused(case) == (
        "the device was fake and is cuda",
        "the GPU was Fake GPU and is NVIDIA H200",
        "the version of triton was 0 and is 3.7.0",
    )


def test_a_run_of_version_1_does_not_say_enough(case: Case) -> None:
    case.run(trials=12)
    rewritten(
        case,
        lambda r: r.model_copy(update={"identity": {}, "workload": None}) if r.kind == "run" else r,
    )
    assert case.recorded().key == case.small.task.workload.key
    assert refused(case) == ("its first line does not say what its proposals depend on",)


def test_another_proposal_than_the_recorded_one_is_named(case: Case) -> None:
    case.run()

    def change(record: Any) -> Any:
        if not isinstance(record, TrialRecord) or record.trial != 17:
            return record
        choices = {**record.schedule["choices"], "warps": 64}
        return record.model_copy(update={"schedule": {**record.schedule, "choices": choices}})

    rewritten(case, change)
    (found,) = refused(case)
    assert found.startswith("trial 17: the log holds contraction.")
    assert "warps=64" in found
    assert "proposed is contraction." in found
    verdict = case.verdict()
    assert (verdict.trial, verdict.difference) == (17, found)


def test_a_lost_record_on_which_others_depend_is_named(case: Case) -> None:
    case.run()
    records = [r for r in read(case.log).records if getattr(r, "trial", None) != 9]
    case.log.write_bytes(b"".join(line_of(record) for record in records))
    fact = "trial 9: the log holds no readable record of it, but of later ones"
    assert refused(case) == (fact,)
    assert case.verdict().difference == fact


def test_a_time_that_was_changed_changes_what_follows(case: Case) -> None:
    case.run()

    def change(record: Any) -> Any:
        if not isinstance(record, TrialRecord) or record.trial != 0:
            return record
        timing = {"latency_us": 1.0, "low_us": 1.0, "high_us": 1.0, "samples_us": (1.0,)}
        ok = {"status": "ok", "timing": timing, "predicted": False, "build_s": 0.1, "run_s": 0.1}
        return TrialRecord.model_validate({**record.model_dump(), "measurement": ok})

    rewritten(case, change)
    assert case.verdict().difference is not None


def kinds(case: Case) -> list[str]:
    return [record.kind for record in read(case.log).records]


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("round", {"abort_above_us": 1.0}, "given up above 1 us then, above "),
        ("final", {"best": 1}, "the log calls entrant 1 the best, by its times it is 0"),
        ("final", {"entrants": ()}, "the log compares trials [], the fastest are ["),
        ("stop", {"reason": "early stopping"}, "stop: for want of a gain, "),
        ("stop", {"trials": 7}, "stop: after 7 trials, and the log holds 24 before it"),
        ("stop", {"reason": "exhausted"}, "nothing was left to propose, and now there is"),
    ],
)
def test_decisions_are_reproduced_too(
    case: Case, kind: str, changes: dict[str, Any], words: str
) -> None:
    case.run(finals=3)
    assert case.verdict().difference is None
    last = len(kinds(case)) - 1 - kinds(case)[::-1].index(kind)
    places = iter(range(10**6))
    rewritten(case, lambda r: r.model_copy(update=changes) if next(places) == last else r)
    assert words in (case.verdict().difference or "")


def test_the_same_program_of_another_run_is_measured_by_each(case: Case) -> None:
    first: list[Program | Failed] = [t.program for t in case.run(trials=12)]
    again = [t.program for t in case.run(trials=12)]
    assert first == again
    assert len(runs(read(case.log).records)) == 2
    case.run(resume=True, trials=20)
    assert [len(run.trials) for run in runs(read(case.log).records)] == [12, 20]
