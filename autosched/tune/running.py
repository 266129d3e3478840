"""One run, batch by batch, for whoever drives it: alone to its end, or in turns with others.

What is proposed next follows from ``course``, whoever has a turn in between: batch r+1 knows the
outcomes of batch r-1, and those of batch r are told only when batch r+1 is proposed. A run that is
resumed goes the same way through its recorded outcomes first, and measures what has none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.spec.task import Task
from autosched.tune import recorded
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
from autosched.tune.identity import ResumeRefused
from autosched.tune.journal import Journal
from autosched.tune.ledger import Ledger
from autosched.tune.options import Options
from autosched.tune.recorded import Diverged, Passage, RecordedRun
from autosched.tune.result import Best, Trial, TuningResult, fastest
from autosched.tune.strategy import OutcomesBySchedule
from measure.comparison import Comparison
from measure.measurement import Measurement, Timed, Timing
from measure.service import Pending, Service
from search_space.target import Target


@dataclass
class Flight(recorded.Flight):
    """A batch on its way, and what is pending of it."""

    pending: Pending | None = None

    @property
    def latency_us(self) -> float | None:
        """The least time among its outcomes so far."""
        timed = [o.latency_us for o in self.outcomes.values() if isinstance(o, Timed)]
        return min(timed, default=None)


@dataclass
class Running:
    """The state of one run. ``service`` must be open for the workload and stays the caller's.

    ``identity`` is all that proposals depend on beside outcomes.
    """

    task: Task
    target: Target
    service: Service
    course: Course
    journal: Journal
    options: Options
    identity: Mapping[str, Any]
    resume: RecordedRun | None
    events: Callable[[Event], None]
    predictions: OutcomesBySchedule | None
    ledger: Ledger
    stopped: Stop | None = None
    #: All batches in the order of rounds, and those of the last ones that were not told.
    flights: list[Flight] = field(default_factory=list)
    waiting: deque[Flight] = field(default_factory=deque)
    entrants: list[Trial] = field(default_factory=list)
    comparison: Comparison | None = None
    #: Outcomes come from the service's threads. None is entered after an interrupt.
    lock: threading.RLock = field(default_factory=threading.RLock)
    interrupted: bool = False

    def catch_up(self, rounds: int = 0) -> None:
        """Go through what the run recorded, if it is resumed. Writes nothing.

        ``rounds`` is how many batches the log says were handed over, where the last of them may
        have no outcome. Raises ResumeRefused.
        """
        if self.resume:
            self._catch_up(self.resume, rounds)

    def begin(self) -> None:
        """Log that the run starts, or goes on."""
        count = len(self.ledger.trials)
        if self.resume:
            self.journal.resume(self.options, count)
        else:
            self.journal.start(self.task.spec, self.options, self.identity)
        label = self.task.workload.label
        total = max(self.options.trials, count)
        self.events(RunStarted(label, self.service.device, total, count))

    def _catch_up(self, resume: RecordedRun, rounds: int) -> None:
        passage = Passage(self.course, resume.trials)
        try:
            waiting = passage.go()
        except Diverged as error:
            what = f"the run {resume.start.run} cannot go on:"
            raise ResumeRefused(what, (str(error),)) from error
        for trial in passage.trials:
            self.ledger.enter(trial, recorded=True)
        self.flights = [self._learnt(Flight(*passed)) for passed in passage.passed]
        self.waiting = deque(self.flights[len(self.flights) - len(waiting) :])
        while len(self.flights) < rounds and self._told():
            if not self._next().batch.proposals:
                break

    def propose(self) -> Flight | None:
        """Return the next batch, or None where the run has come to its end.

        All batches but the last one must be settled.
        """
        self._told()
        if not self._goes_on():
            return None
        flight = self._next()
        if not flight.batch.proposals:
            self.stopped = "exhausted"
            return None
        return flight

    def _told(self) -> bool:
        """Tell the batch before the last one; whether the next one can now be proposed."""
        if len(self.waiting) == OVERLAP and not self.waiting[0].missing:
            flight = self.waiting.popleft()
            self.course.tell(flight.batch, flight.outcomes)
        return len(self.waiting) < OVERLAP

    def tell_rest(self) -> None:
        """Tell what was not yet told, in the order of proposals."""
        while self.waiting and not self.waiting[0].missing:
            flight = self.waiting.popleft()
            self.course.tell(flight.batch, flight.outcomes)

    def _next(self) -> Flight:
        flight = self._learnt(Flight(self.course.propose()))
        if flight.batch.proposals:
            self.flights.append(flight)
            self.waiting.append(flight)
        return flight

    def _goes_on(self) -> bool:
        patience, budget_s = self.options.early_stopping, self.options.budget_s
        if self.stopped is None and self.course.proposed >= self.options.trials:
            self.stopped = "trials"
        elif self.stopped is None and budget_s is not None and self.ledger.elapsed_s >= budget_s:
            self.stopped = "budget"
        elif self.stopped is None and patience is not None and self.course.since_gain >= patience:
            self.stopped = "early stopping"
        return self.stopped is None

    def _learnt(self, flight: Flight) -> Flight:
        for proposal in flight.batch.proposals:
            if self.predictions is not None and proposal.program is not None:
                self.predictions.learn(proposal.candidate, proposal.program)
        return flight

    def submit(self, flight: Flight, most: int | None = None) -> int:
        """Hand over what has no outcome yet and lies within the bound on trials, and say how many.

        No more than ``most`` of them are.
        """
        batch = flight.batch
        wanted = [p for p in flight.missing if p.number < self.options.trials][:most]
        if not wanted:
            return 0
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
        return len(wanted)

    def settle(self, flight: Flight) -> None:
        """Wait for the outcomes of a batch."""
        if flight.pending is not None:
            flight.pending.results()
            self.events(RoundDone(flight.batch.round, self.ledger.progress()))

    def _enter(self, flight: Flight, proposal: Proposal, outcome: Measurement) -> None:
        """Log an outcome, count it and show it; too late once the run was interrupted."""
        with self.lock:
            if self.interrupted:
                return
            number, candidate = proposal.number, proposal.candidate
            trial = Trial(number, flight.batch.round, candidate, proposal.program, outcome)
            self.journal.trial(trial)
            improved = self.ledger.enter(trial)
            flight.outcomes[number] = outcome
            progress = self.ledger.progress()
            self.events(TrialDone(number, candidate, outcome, improved, progress))

    def end(self, reason: Stop) -> None:
        """Let nothing more be proposed: for a reason of the run's own, or else for ``reason``."""
        self._told()
        if any(self._lacks(flight) for flight in self.waiting) or self._goes_on():
            self.stopped = reason

    def interrupt(self) -> None:
        """End the run at the user's wish: outcomes that come from now on are too late."""
        with self.lock:
            self.interrupted = True
            if self.stopped is None or any(self._lacks(flight) for flight in self.waiting):
                self.stopped = "interrupted"

    def _lacks(self, flight: Flight) -> bool:
        return any(p.number < self.options.trials for p in flight.missing)

    def hold_finals(self, most_rounds: int | None = None) -> None:
        """Measure the fastest again, in turns with each other and with the library."""
        entrants = fastest(self.ledger.trials, self.options.finals)
        programs = [trial.program for trial in entrants if trial.program is not None]
        if not programs:
            return
        self.events(FinalsStarted(len(programs)))
        rounds = min(self.options.final_rounds, most_rounds or self.options.final_rounds)
        comparison = self.service.compare(programs, library=True, rounds=rounds)
        self.journal.final(entrants, comparison)
        self.entrants, self.comparison = entrants, comparison
        self.events(FinalsDone(comparison))

    def result(self) -> TuningResult:
        """Log why the run ended, and return what it found."""
        with self.lock:
            stopped: Stop = self.stopped or "trials"
            trials = self.ledger.trials
            self.journal.stop(stopped, len(trials))
            self.events(RunDone(stopped, self.ledger.progress()))
            best = _winner(self.entrants, self.comparison) or _first(fastest(trials, 1))
            return TuningResult(
                workload=self.task.workload,
                device=self.service.device,
                target=self.target.name,
                trials=trials,
                best=best,
                comparison=self.comparison,
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
