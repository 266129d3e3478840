"""The loop: ask, render, build, measure, tell. Picks no schedule and measures nothing itself.

Two batches are on their way at any time: while one is measured, the next is proposed and its
builds start. What is asked for batch r+1 therefore depends on outcomes through batch r-1 alone,
told in the order of proposals, so a seed and the measured times determine every proposal.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from autosched.codegen.render import render
from autosched.spec.task import Task
from autosched.tune.candidate import Candidate
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
from autosched.tune.journal import Journal
from autosched.tune.ledger import Ledger
from autosched.tune.options import Options
from autosched.tune.predicted import PredictedTimes
from autosched.tune.result import Best, Trial, TuningResult, fastest
from autosched.tune.strategy import Strategy, Told
from measure.comparison import Comparison
from measure.log import LogWriter
from measure.measurement import Failed, Failure, Measurement, Timed, Timing
from measure.service import Pending, Service
from search_space.apply import IllegalStep
from search_space.program import Program
from search_space.target import Target

#: Batches on their way at a time.
OVERLAP = 2
#: The first batches, proposed before any outcome is known, are this share of a whole one.
FIRST_SHARE = 0.5
#: A candidate slower than the incumbent by this factor is not timed to the end.
ABORT_FACTOR = 3.0
#: Times that a strategy is asked again in place of candidates whose program was known.
REFILLS = 4


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
    run: str = "",
    events: Callable[[Event], None] = lambda _: None,
    predictions: PredictedTimes | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> TuningResult:
    """Search for a fast schedule of ``task`` and return all that was tried.

    ``service`` must be open for the workload and stays the caller's; so does ``log``. The bounds
    are those of ``Options``; ``seed`` is for the log, where ``run`` names the run (by default
    after the workload, the time and the seed). ``predictions`` are told of every program, for a
    service that takes its times from them. ``clock`` gives seconds that never go back, ``now``
    the time in UTC. An interrupt from the keyboard ends the search; what was found is kept.

    Raises:
        measure.disk.StorageError: the log cannot be written; what it holds stays sound.
        measure.service.NoDevice: the device is gone.
    """
    options = Options(trials, batch, budget_s, early_stopping, finals, final_rounds, seed)
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
        strategy=strategy,
        journal=journal,
        options=options,
        events=events,
        predictions=predictions,
        ledger=Ledger(options.trials, clock),
    )
    return search.run()


@dataclass
class _Batch:
    """Trials on their way: candidates with programs, those refused at once, and what is pending.

    ``numbers`` are the trials' numbers, by the order of submission.
    """

    round: int
    candidates: list[tuple[int, Candidate, Program]] = field(default_factory=list)
    outcomes: dict[int, Told] = field(default_factory=dict)
    pending: Pending | None = None


@dataclass
class _Search:
    """The state of one run."""

    task: Task
    target: Target
    service: Service
    strategy: Strategy
    journal: Journal
    options: Options
    events: Callable[[Event], None]
    predictions: PredictedTimes | None
    ledger: Ledger
    proposed: int = 0
    rounds: int = 0
    fingerprints: set[str] = field(default_factory=set)
    stopped: Stop | None = None
    #: Outcomes come from the service's threads.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self) -> TuningResult:
        self.events(RunStarted(self.task.workload.label, self.service.device, self.options.trials))
        self.journal.start(self.task.spec, self.options, self.strategy.name)
        comparison, entrants = None, list[Trial]()
        try:
            self._search()
            entrants = self._entrants()
            comparison = self._finals(entrants)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        with self.lock:
            return self._result(entrants, comparison)

    def _search(self) -> None:
        waiting: deque[_Batch] = deque()
        while self._propose(waiting):
            batch = waiting.popleft()
            if batch.pending is not None:
                batch.pending.results()
            told = [batch.outcomes[number] for number in sorted(batch.outcomes)]
            self.strategy.tell(told)
            self.events(RoundDone(batch.round, self.ledger.progress()))

    def _propose(self, waiting: deque[_Batch]) -> bool:
        """Have ``OVERLAP`` batches on their way where there is more to try; any at all?"""
        while len(waiting) < OVERLAP and self._goes_on():
            batch = self._ask()
            if not (batch.candidates or batch.outcomes):
                self.stopped = "exhausted"
                break
            waiting.append(batch)
            self._submit(batch)
        return bool(waiting)

    def _goes_on(self) -> bool:
        patience, budget_s = self.options.early_stopping, self.options.budget_s
        if self.stopped is None and self.proposed >= self.options.trials:
            self.stopped = "trials"
        elif self.stopped is None and budget_s is not None and self.ledger.elapsed_s >= budget_s:
            self.stopped = "budget"
        elif self.stopped is None and patience is not None and self.ledger.since_gain >= patience:
            self.stopped = "early stopping"
        return self.stopped is None

    def _ask(self) -> _Batch:
        """Ask for a batch of candidates whose programs are new, asking again for what is not."""
        batch = _Batch(self.rounds)
        self.rounds += 1
        wanted = min(self._batch_size(batch.round), self.options.trials - self.proposed)
        for _ in range(REFILLS):
            missing = wanted - len(batch.candidates) - len(batch.outcomes)
            asked = self.strategy.ask(missing) if missing else []
            for candidate in asked:
                self._admit(batch, candidate)
            if not asked:
                break
        return batch

    def _batch_size(self, round_: int) -> int:
        share = FIRST_SHARE if round_ < OVERLAP else 1.0
        return max(1, int(share * self.options.batch))

    def _admit(self, batch: _Batch, candidate: Candidate) -> None:
        """Give a candidate a number and its program; drop it if the program was tried."""
        try:
            program = render(self.task.workload, candidate.schedule, self.target)
        except IllegalStep as error:
            refusal = Failed(Failure.CONSTRAINTS, str(error))
            self._enter(batch, self._number(), candidate, None, refusal)
            return
        if program.fingerprint in self.fingerprints:
            return
        self.fingerprints.add(program.fingerprint)
        if self.predictions is not None:
            self.predictions.learn(candidate, program)
        batch.candidates.append((self._number(), candidate, program))

    def _number(self) -> int:
        self.proposed += 1
        return self.proposed - 1

    def _submit(self, batch: _Batch) -> None:
        self.events(RoundStarted(batch.round, len(batch.candidates)))
        incumbent_us = self.ledger.incumbent_us
        batch.pending = self.service.submit(
            [program for _, _, program in batch.candidates],
            abort_above_us=None if incumbent_us is None else ABORT_FACTOR * incumbent_us,
            on_result=partial(self._on_result, batch),
        )

    def _on_result(self, batch: _Batch, index: int, measurement: Measurement) -> None:
        number, candidate, program = batch.candidates[index]
        self._enter(batch, number, candidate, program, measurement)

    def _enter(
        self,
        batch: _Batch,
        number: int,
        candidate: Candidate,
        program: Program | None,
        measurement: Measurement,
    ) -> None:
        """Log an outcome, count it and show it; too late once the run has ended."""
        with self.lock:
            if self.stopped == "interrupted":
                return
            trial = Trial(number, batch.round, candidate, program, measurement)
            self.journal.trial(trial)
            improved = self.ledger.enter(trial)
            batch.outcomes[number] = Told(candidate, measurement)
            progress = self.ledger.progress()
            self.events(TrialDone(number, candidate, measurement, improved, progress))

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
