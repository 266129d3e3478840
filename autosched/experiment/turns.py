"""One run of an arm over all landscapes under one bound: searches that take turns.

The order of a real suite (``autosched.tune.suite``): a turn is a batch, two are on their way at any
time, of one search or of two, and whose turn is next depends on the outcomes of all but the last.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from autosched.experiment.clock import SimulatedClock
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import SUITE, Arm, Experiment
from autosched.experiment.search import Line, Run, line_of, rounded
from autosched.tune.course import OVERLAP, Batch, Course
from autosched.tune.events import Stop
from autosched.tune.scheduler import History, Scheduler, make
from autosched.tune.strategy import Strategy
from autosched.tune.suite import stake_of
from measure.measurement import Measurement, Timed


@dataclass
class _Member:
    """A search of one landscape, and its batches that were not told."""

    outcomes: Outcomes
    course: Course
    waiting: deque[Batch] = field(default_factory=deque)
    told: int = 0

    def outcome(self, batch: Batch) -> dict[int, Measurement]:
        """Return what came of a batch, by number."""
        known = self.outcomes.by_key
        return {p.number: p.refusal or known[p.candidate.key].outcome for p in batch.proposals}

    def propose(self) -> Batch:
        """Return the next batch; what came of the one before the last is told first."""
        if len(self.waiting) == OVERLAP:
            batch = self.waiting.popleft()
            self.course.tell(batch, self.outcome(batch))
            self.told += len(batch.proposals)
        batch = self.course.propose()
        self.waiting.append(batch)
        return batch


@dataclass
class _Suite:
    """The state of one run. A trial's number on the clock is its place among all of the run."""

    experiment: Experiment
    arm: Arm
    members: Sequence[_Member]
    scheduler: Scheduler
    clock: SimulatedClock
    timer: Callable[[], float]
    histories: list[History] = field(default_factory=list)
    flying: deque[tuple[int, Batch, int, int]] = field(default_factory=deque)
    handed: int = 0
    ask_s: list[float] = field(default_factory=list)
    stopped: Stop = "trials"

    def lines(self) -> Iterator[Line]:
        """Yield the lines of all trials, turn by turn."""
        self.histories = [History() for _ in self.members]
        while self._fill():
            yield from self._settle()

    def _fill(self) -> bool:
        """Have ``OVERLAP`` batches on their way where there is more to try; any at all?"""
        while len(self.flying) < OVERLAP and self._goes_on():
            n = self.scheduler.choose(self.histories)
            if n is None:
                self.stopped = "exhausted"
                break
            begun = self.timer()
            batch = self.members[n].propose()
            self.ask_s.append(self.timer() - begun)
            self.clock.spend(self.experiment.asking_s(self.arm, self.members[n].told))
            if not batch.proposals:
                self.histories[n] = replace(self.histories[n], open=False)
                continue
            self._grant(n, batch)
        return bool(self.flying)

    def _goes_on(self) -> bool:
        budget_s = self.experiment.budget_s
        if budget_s is not None and self.clock.now_s >= budget_s:
            self.stopped = "budget"
            return False
        return self.handed < self.experiment.total

    def _grant(self, n: int, batch: Batch) -> None:
        count = min(len(batch.proposals), self.experiment.total - self.handed)
        outcomes = self.members[n].outcome(batch)
        wanted = [(self.handed + k, outcomes[p.number]) for k, p in enumerate(batch.proposals)]
        self.clock.submit(wanted[:count])
        self.histories[n] = replace(self.histories[n], granted=self.histories[n].granted + 1)
        self.flying.append((n, batch, self.handed, count))
        self.handed += count

    def _settle(self) -> Iterator[Line]:
        """Wait for the oldest turn, yield its lines and let the scheduler know."""
        n, batch, first, count = self.flying.popleft()
        outcomes = self.members[n].outcome(batch)
        finished_s = self.clock.wait(range(first, first + count))
        times = [self.histories[n].latency_us]
        for place, proposal in enumerate(batch.proposals[:count], first):
            outcome = outcomes[proposal.number]
            times.append(outcome.latency_us if isinstance(outcome, Timed) else None)
            line = line_of(batch.round, proposal, outcome, finished_s[place])
            yield {**line, "trial": place, "task": n}
        best_us = min((us for us in times if us is not None), default=None)
        history = self.histories[n]
        self.histories[n] = replace(history, best_us=(*history.best_us, best_us))


def take_turns(
    experiment: Experiment,
    outcomes: Sequence[Outcomes],
    arm: Arm,
    seed: int,
    strategies: Sequence[Strategy],
    timer: Callable[[], float] = time.process_time,
) -> Run:
    """Run the strategies, one a landscape, until all landscapes together had their trials."""
    members = [
        _Member(held, Course(held.workload, held.target, strategy, arm.batch, held.fingerprint))
        for held, strategy in zip(outcomes, strategies, strict=True)
    ]
    stakes = [stake_of(held.workload, held.target) for held in outcomes]
    suite = _Suite(
        experiment=experiment,
        arm=arm,
        members=members,
        scheduler=make(arm.scheduler, stakes, arm.turns),
        clock=SimulatedClock(experiment.clock.builders),
        timer=timer,
    )
    head = {
        "kind": "run",
        "landscape": SUITE,
        "workload": [held.workload.key for held in outcomes],
        "arm": arm.name,
        "seed": seed,
        "predicted": any(held.predicted for held in outcomes),
        "roof_us": sum(held.roof_us for held in outcomes),
        "optimum_us": sum(held.optimum_us for held in outcomes),
    }
    lines: list[Line] = [head, *suite.lines()]
    end_s = rounded(suite.clock.now_s)
    stop = {"kind": "stop", "reason": suite.stopped, "trials": suite.handed, "at_s": end_s}
    return Run((*lines, stop), tuple(suite.ask_s))
