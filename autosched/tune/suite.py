"""Several runs under one budget: they take turns, a batch each, as a scheduler says.

Two batches are on their way at any time, of one run or of two: while one is measured, the next is
built. Whose turn is next depends on the outcomes of all turns but the last one, so that the clock
leaves no trace in it. What a run proposes depends on its own outcomes alone: turns decide how many
batches it comes to, and never what is in them. So each can be resumed and replayed by itself.

What is resumed takes the turns that the log holds as they are, by the order of its lines, and goes
on from there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

import autosched
from autosched.spec.task import Task
from autosched.tune.course import OVERLAP
from autosched.tune.events import Event, Stop
from autosched.tune.family import family_of
from autosched.tune.recorded import RecordedRun
from autosched.tune.result import TuningResult
from autosched.tune.running import Flight, Running
from autosched.tune.scheduler import History, Scheduler, Stake
from autosched.tune.turns import Turn
from measure.floor import least_us
from measure.log import LogWriter
from measure.record import Provenance, SuiteRecord
from search_space.target import Target
from search_space.workload import Workload

#: Rounds of each final comparison after an interrupt: somebody waits for the end.
SHORT_FINAL_ROUNDS = 20

State = Literal["done", "partial", "not started"]


@dataclass(frozen=True)
class Member:
    """One task of a suite.

    ``run`` is what its run is called in the log, ``resume`` the run to go on with. ``open`` makes
    the run, its service open; it is called when the task is to have its first turn, and is given
    who hears of events.
    """

    task: Task
    stake: Stake
    run: str
    open: Callable[[Callable[[Event], None]], Running]
    resume: RecordedRun | None = None


@dataclass(frozen=True)
class Bounds:
    """What ends a suite: attempts of all runs together, recorded ones included, and seconds."""

    total_trials: int | None = None
    budget_s: float | None = None


@dataclass(frozen=True)
class SuiteResult:
    """What became of each task, in the order of the suite; None of one that never had a turn.

    ``turns`` counts those of each. ``stopped`` says what ended the suite, None where every run
    came to its own end.
    """

    results: tuple[TuningResult | None, ...]
    turns: tuple[int, ...]
    stopped: Stop | None
    elapsed_s: float

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it."""
        return self.stopped == "interrupted"

    @property
    def states(self) -> tuple[State, ...]:
        """How far each task came: "partial" is what time or the user cut short."""
        return tuple(_state(result) for result in self.results)


def _state(result: TuningResult | None) -> State:
    if result is None:
        return "not started"
    return "partial" if result.stopped in ("budget", "interrupted") else "done"


def stake_of(workload: Workload, target: Target, weight: float = 1.0) -> Stake:
    """Return what a scheduler is told of a task."""
    return Stake(
        weight=weight,
        operations=workload.operations,
        bytes=workload.compulsory_bytes,
        family=family_of(workload),
        floor_us=least_us(workload, target),
    )


def tune_suite(
    members: Sequence[Member],
    scheduler: Scheduler,
    log: LogWriter | None,
    bounds: Bounds,
    *,
    recorded: Sequence[Turn] = (),
    events: Callable[[int, Event], None] = lambda _, __: None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> SuiteResult:
    """Search for fast schedules of all ``members`` within ``bounds``, and return what was found.

    ``recorded`` are the turns that the log holds of the runs to go on with. ``events`` is told of
    each task's by its position. At the end every run that measured something has its final
    comparison. An interrupt from the keyboard ends the search and shortens these; a second one
    ends them.

    Raises what ``tuner.tune`` raises; after ResumeRefused nothing was measured or written.
    """
    turns = _Turns(members, scheduler, log, bounds, events, clock, now)
    return turns.run(recorded)


@dataclass
class _Turns:
    """The state of a suite."""

    members: Sequence[Member]
    scheduler: Scheduler
    log: LogWriter | None
    bounds: Bounds
    events: Callable[[int, Event], None]
    clock: Callable[[], float]
    now: Callable[[], datetime]
    running: dict[int, Running] = field(default_factory=dict)
    histories: list[History] = field(default_factory=list)
    #: Turns whose outcomes the scheduler does not know, in the order they were granted.
    flying: deque[tuple[int, Flight]] = field(default_factory=deque)
    #: Attempts handed over, and recorded ones.
    handed: int = 0
    stopped: Stop | None = None
    interrupts: int = 0
    started_s: float = 0.0

    def run(self, recorded: Sequence[Turn]) -> SuiteResult:
        self.started_s = self.clock()
        self.histories = [History() for _ in self.members]
        try:
            self._restore(recorded)
            self._share()
        except KeyboardInterrupt:
            self._interrupt()
        self._end()
        self._hold_finals()
        results = {n: running.result() for n, running in self.running.items()}
        return SuiteResult(
            results=tuple(results.get(n) for n in range(len(self.members))),
            turns=tuple(history.granted for history in self.histories),
            stopped=self.stopped,
            elapsed_s=self.clock() - self.started_s,
        )

    def _restore(self, recorded: Sequence[Turn]) -> None:
        """Bring all runs to where the log left them, and hand over what lacks an outcome.

        The last turns are on their way again, as they were.
        """
        for n, member in enumerate(self.members):
            if member.resume is not None:
                self.running[n] = member.open(self._listener(n))
                self.running[n].catch_up(sum(task == n for task, _ in recorded))
        self._note()
        for running in self.running.values():
            self.handed += len(running.ledger.trials)
            running.begin()
        flights = self._flights(recorded)
        for place, (n, flight) in enumerate(flights):
            self._grant(n, flight)
            late = place < len(flights) - OVERLAP
            while self.flying and (late or len(self.flying) > OVERLAP):
                self._settle()

    def _flights(self, recorded: Sequence[Turn]) -> list[tuple[int, Flight]]:
        """Return the batches passed in the order of their turns."""
        order = [*recorded]
        for n, running in self.running.items():
            order += [
                (n, f.batch.round) for f in running.flights if (n, f.batch.round) not in order
            ]
        known = {(n, f.batch.round): f for n, r in self.running.items() for f in r.flights}
        return [(turn[0], known[turn]) for turn in order if turn in known]

    def _note(self) -> None:
        """Log that these runs share turns from here on."""
        if self.log is None:
            return
        moment = self.now()
        provenance = Provenance(
            autosched=autosched.__version__,
            torch="",
            triton="",
            driver="",
            seed=0,
            time=moment.isoformat(timespec="milliseconds"),
        )
        record = SuiteRecord(
            run=f"suite-{moment:%Y%m%dT%H%M%S%f}",
            runs=tuple(member.run for member in self.members),
            weights=tuple(member.stake.weight for member in self.members),
            scheduler=self.scheduler.name,
            settings=dict(self.scheduler.settings),
            total_trials=self.bounds.total_trials,
            budget_s=self.bounds.budget_s,
            provenance=provenance,
        )
        self.log.append(record)

    def _share(self) -> None:
        while self._fill():
            self._settle()

    def _fill(self) -> bool:
        """Have ``OVERLAP`` batches on their way where there is more to try; any at all?"""
        while len(self.flying) < OVERLAP and not self._spent():
            n = self.scheduler.choose(self.histories)
            if n is None:
                break
            flight = self._opened(n).propose()
            if flight is None:
                self.histories[n] = replace(self.histories[n], open=False)
            else:
                self._grant(n, flight)
        return bool(self.flying)

    def _spent(self) -> bool:
        total, budget_s = self.bounds.total_trials, self.bounds.budget_s
        if self.stopped is None and total is not None and self.handed >= total:
            self.stopped = "total trials"
        elif self.stopped is None and budget_s is not None:
            self.stopped = "budget" if self.clock() - self.started_s >= budget_s else None
        return self.stopped is not None

    def _grant(self, n: int, flight: Flight) -> None:
        total = self.bounds.total_trials
        left = None if total is None else max(0, total - self.handed)
        self.handed += self.running[n].submit(flight, left)
        self.histories[n] = replace(self.histories[n], granted=self.histories[n].granted + 1)
        self.flying.append((n, flight))

    def _settle(self) -> None:
        """Wait for the oldest turn, and let the scheduler know."""
        n, flight = self.flying[0]
        self.running[n].settle(flight)
        self.flying.popleft()
        history, found_us = self.histories[n], flight.latency_us
        times = [us for us in (history.latency_us, found_us) if us is not None]
        best_us = (*history.best_us, min(times, default=None))
        self.histories[n] = replace(history, best_us=best_us)

    def _opened(self, n: int) -> Running:
        if n not in self.running:
            running = self.members[n].open(self._listener(n))
            running.begin()
            # Only now: a run without a first line has no last one.
            self.running[n] = running
        return self.running[n]

    def _listener(self, n: int) -> Callable[[Event], None]:
        return lambda event: self.events(n, event)

    def _interrupt(self) -> None:
        self.interrupts += 1
        self.stopped = "interrupted"
        for running in self.running.values():
            running.interrupt()
            running.service.drop()

    def _end(self) -> None:
        for running in self.running.values():
            if running.stopped is None:
                running.end(self.stopped or "trials")
            running.tell_rest()

    def _hold_finals(self) -> None:
        for running in self.running.values():
            if self.interrupts > 1:
                return
            try:
                running.hold_finals(SHORT_FINAL_ROUNDS if self.interrupts else None)
            except KeyboardInterrupt:
                self._interrupt()
