"""The loop: propose, build, measure, tell. Picks no schedule and measures nothing itself.

What is proposed next follows from ``course``: building, measuring and training overlap, and the
clock leaves no trace in proposals. A run that is resumed goes the same way through its recorded
outcomes first, and measures what has none.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autosched.spec.task import Task
from autosched.tune.course import OVERLAP, Course, Proposal
from autosched.tune.events import (
    Event,
    FinalsDone,
    FinalsStarted,
    RoundDone,
    RoundStarted,
    RunDone,
    RunStarted,
    Stop,
    TrialDone,
)
from autosched.tune.identity import ResumeRefused, device_differences, differences, identity
from autosched.tune.journal import Journal
from autosched.tune.ledger import Ledger
from autosched.tune.options import Options
from autosched.tune.predicted import PredictedTimes
from autosched.tune.recorded import Diverged, Flight, Passage, RecordedRun
from autosched.tune.result import Best, Trial, TuningResult, fastest
from autosched.tune.strategy import Strategy
from measure.comparison import Comparison
from measure.log import LogWriter
from measure.measurement import Measurement, Timed, Timing
from measure.service import Pending, Service
from search_space.target import Target


def tune(
    task: Task,
    target: Target,
    service: Service,
    strategy: Strategy,
    log: LogWriter | None,
    *,
    trials: int,
    batch: int = 32,
    budget_s: float | None = None,
    early_stopping: int | None = None,
    finals: int = 8,
    final_rounds: int = 50,
    seed: int = 0,
    horizon: int = 320,
    run: str = "",
    resume: RecordedRun | None = None,
    events: Callable[[Event], None] = lambda _: None,
    predictions: PredictedTimes | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> TuningResult:
    """Search for a fast schedule of ``task`` and return all that was tried.

    ``service`` must be open for the workload and stays the caller's; so does ``log``. The bounds
    are those of ``Options``; ``seed`` and ``horizon`` are for the log, where ``run`` names the run
    (by default after the workload, the time and the seed). ``resume`` is a run to go on with:
    ``strategy`` must be as new, is asked for and told what the run recorded, and goes on from
    there; ``trials`` are the total, ``budget_s`` counts from now. ``predictions`` are told of
    every program, for a service that takes its times from them. ``clock`` gives seconds that
    never go back, ``now`` the time in UTC. An interrupt from the keyboard ends the search; what
    was found is kept.

    Raises:
        ResumeRefused: something has changed that proposals depend on, or they are not those of
            the log. Nothing was measured or written.
        measure.disk.StorageError: the log cannot be written; what it holds stays sound.
        measure.service.NoDevice: the device is gone.
    """
    options = Options(trials, batch, budget_s, early_stopping, finals, final_rounds, seed, horizon)
    known = identity(task.workload, target, strategy, batch)
    if resume is not None:
        refuse_changed(resume, known, service)
        run = resume.start.run
    journal = Journal(
        log,
        run=run or f"{task.workload.key}-{now():%Y%m%dT%H%M%S%f}-{seed}",
        workload=task.workload,
        device=service.device,
        seed=seed,
        now=now,
    )
    search = _Search(
        task=task,
        target=target,
        service=service,
        course=Course(task.workload, target, strategy, batch),
        journal=journal,
        options=options,
        resume=resume,
        events=events,
        predictions=predictions,
        ledger=Ledger(max(trials, len(resume.trials) if resume else 0), clock),
    )
    return search.run(known)


def refuse_changed(
    resume: RecordedRun, known: Mapping[str, Any], service: Service | None = None
) -> None:
    """Raise ResumeRefused where what ``resume`` says of itself is not ``known``, an identity.

    With ``service`` what measures counts too.
    """
    start = resume.start
    found = differences(start.identity, known)
    if service is not None:
        found += device_differences(start, service.device)
    if found:
        raise ResumeRefused(f"the run {start.run} cannot go on:", found)


@dataclass
class _Flight(Flight):
    """A batch on its way, and what is pending of it."""

    pending: Pending | None = None


@dataclass
class _Search:
    """The state of one run."""

    task: Task
    target: Target
    service: Service
    course: Course
    journal: Journal
    options: Options
    resume: RecordedRun | None
    events: Callable[[Event], None]
    predictions: PredictedTimes | None
    ledger: Ledger
    stopped: Stop | None = None
    #: Outcomes come from the service's threads.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self, known: Mapping[str, Any]) -> TuningResult:
        comparison, entrants = None, list[Trial]()
        waiting = self._begin(known)
        try:
            self._search(waiting)
            entrants = self._entrants()
            comparison = self._finals(entrants)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        with self.lock:
            return self._result(entrants, comparison)

    def _begin(self, known: Mapping[str, Any]) -> deque[_Flight]:
        """Start the run, or go through what it recorded; return the batches on their way."""
        flights = self._catch_up(self.resume) if self.resume else deque[_Flight]()
        count = len(self.ledger.trials)
        if self.resume:
            self.journal.resume(self.options, count)
        else:
            self.journal.start(self.task.spec, self.options, known)
        label = self.task.workload.label
        total = max(self.options.trials, count)
        self.events(RunStarted(label, self.service.device, total, count))
        return flights

    def _catch_up(self, resume: RecordedRun) -> deque[_Flight]:
        passage = Passage(self.course, resume.trials)
        try:
            flights = passage.go()
        except Diverged as error:
            what = f"the run {resume.start.run} cannot go on:"
            raise ResumeRefused(what, (str(error),)) from error
        for batch, _ in passage.passed:
            for proposal in batch.proposals:
                self._learn(proposal)
        for trial in passage.trials:
            self.ledger.enter(trial, recorded=True)
        return deque(_Flight(flight.batch, flight.outcomes) for flight in flights)

    def _search(self, waiting: deque[_Flight]) -> None:
        for flight in waiting:
            self._submit(flight)
        while self._propose(waiting):
            flight = waiting.popleft()
            if flight.pending is not None:
                flight.pending.results()
            if not flight.missing:
                self.course.tell(flight.batch, flight.outcomes)
            if flight.pending is not None:
                self.events(RoundDone(flight.batch.round, self.ledger.progress()))

    def _propose(self, waiting: deque[_Flight]) -> bool:
        """Have ``OVERLAP`` batches on their way where there is more to try; any at all?"""
        while len(waiting) < OVERLAP and self._goes_on():
            flight = _Flight(self.course.propose())
            if not flight.batch.proposals:
                self.stopped = "exhausted"
                break
            for proposal in flight.batch.proposals:
                self._learn(proposal)
            waiting.append(flight)
            self._submit(flight)
        return bool(waiting)

    def _goes_on(self) -> bool:
        patience, budget_s = self.options.early_stopping, self.options.budget_s
        if self.stopped is None and self.course.proposed >= self.options.trials:
            self.stopped = "trials"
        elif self.stopped is None and budget_s is not None and self.ledger.elapsed_s >= budget_s:
            self.stopped = "budget"
        elif self.stopped is None and patience is not None and self.course.since_gain >= patience:
            self.stopped = "early stopping"
        return self.stopped is None

    def _learn(self, proposal: Proposal) -> None:
        if self.predictions is not None and proposal.program is not None:
            self.predictions.learn(proposal.candidate, proposal.program)

    def _submit(self, flight: _Flight) -> None:
        """Hand over what has no outcome yet and lies within the bound on trials."""
        batch = flight.batch
        wanted = [p for p in flight.missing if p.number < self.options.trials]
        if not wanted:
            return
        self.journal.round(batch.round, [p.number for p in wanted], batch.abort_above_us)
        for proposal in wanted:
            if proposal.refusal is not None:
                self._enter(flight, proposal, proposal.refusal)
        built = [p for p in wanted if p.program is not None]
        self.events(RoundStarted(batch.round, len(built)))
        flight.pending = self.service.submit(
            [p.program for p in built if p.program is not None],
            abort_above_us=batch.abort_above_us,
            on_result=lambda index, outcome: self._enter(flight, built[index], outcome),
        )

    def _enter(self, flight: _Flight, proposal: Proposal, outcome: Measurement) -> None:
        """Log an outcome, count it and show it; too late once the run has ended."""
        with self.lock:
            if self.stopped == "interrupted":
                return
            number, candidate = proposal.number, proposal.candidate
            trial = Trial(number, flight.batch.round, candidate, proposal.program, outcome)
            self.journal.trial(trial)
            improved = self.ledger.enter(trial)
            flight.outcomes[number] = outcome
            progress = self.ledger.progress()
            self.events(TrialDone(number, candidate, outcome, improved, progress))

    def _entrants(self) -> list[Trial]:
        return fastest(self.ledger.trials, self.options.finals)

    def _finals(self, entrants: Sequence[Trial]) -> Comparison | None:
        """Measure the fastest again, in turns with each other and with the library."""
        programs = [trial.program for trial in entrants if trial.program is not None]
        if not programs:
            return None
        self.events(FinalsStarted(len(programs)))
        rounds = self.options.final_rounds
        comparison = self.service.compare(programs, library=True, rounds=rounds)
        self.journal.final(entrants, comparison)
        self.events(FinalsDone(comparison))
        return comparison

    def _result(self, entrants: Sequence[Trial], comparison: Comparison | None) -> TuningResult:
        stopped: Stop = self.stopped or "trials"
        trials = self.ledger.trials
        self.journal.stop(stopped, len(trials))
        self.events(RunDone(stopped, self.ledger.progress()))
        best = _winner(entrants, comparison) or _first(fastest(trials, 1))
        return TuningResult(
            workload=self.task.workload,
            target=self.target.name,
            trials=trials,
            best=best,
            comparison=comparison,
            stopped=stopped,
            elapsed_s=self.ledger.elapsed_s,
            recorded=len(trials) - self.ledger.measured,
        )


def _winner(entrants: Sequence[Trial], comparison: Comparison | None) -> Best | None:
    """Return the best by comparison, however it did before."""
    if comparison is None or comparison.best is None:
        return None
    trial, timing = entrants[comparison.best], comparison.entrants[comparison.best]
    if not isinstance(trial.measurement, Timed) or not isinstance(timing, Timing):
        return None
    return Best(
        trial=trial,
        timing=timing,
        ratio_to_library=comparison.ratios[comparison.best],
        predicted=trial.measurement.predicted,
        ties=tuple(entrants[n] for n in comparison.ties if n != comparison.best),
    )


def _first(trials: Sequence[Trial]) -> Best | None:
    """Return the fastest as timed in the search: no finals were held."""
    if not trials or not isinstance(trials[0].measurement, Timed):
        return None
    measurement = trials[0].measurement
    return Best(trials[0], measurement.timing, None, measurement.predicted, ())
