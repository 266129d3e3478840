"""One run of an arm on recorded outcomes: the same course as a real one, on a simulated clock.

Builds, renders and measures nothing. What is proposed, and so every line, depends on the outcomes,
the arm and the seed alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.experiment.clock import SimulatedClock
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.plan import Arm, Experiment
from autosched.tune.course import OVERLAP, Batch, Course, Proposal
from autosched.tune.events import Stop
from autosched.tune.strategy import Strategy
from measure.measurement import Failed, Measurement, Timed

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """What came of one run: its lines, and the seconds that asking for its batches took here.

    ``ask_s`` is measured and differs from rerun to rerun; the lines do not.
    """

    lines: tuple[Line, ...]
    ask_s: tuple[float, ...]


def search(
    experiment: Experiment,
    outcomes: Outcomes,
    arm: Arm,
    seed: int,
    strategy: Strategy,
    timer: Callable[[], float] = time.process_time,
) -> Run:
    """Run ``strategy``, which is the arm's for ``seed``, to a bound of the experiment."""
    course = Course(
        outcomes.workload, outcomes.target, strategy, arm.batch, render=outcomes.fingerprint
    )
    clock = SimulatedClock(experiment.clock.builders)
    return _Search(experiment, outcomes, arm, seed, course, clock, timer).run()


class _Search:
    """The state of one run."""

    def __init__(
        self,
        experiment: Experiment,
        outcomes: Outcomes,
        arm: Arm,
        seed: int,
        course: Course,
        clock: SimulatedClock,
        timer: Callable[[], float],
    ) -> None:
        self._experiment = experiment
        self._outcomes = outcomes
        self._arm = arm
        self._seed = seed
        self._course = course
        self._clock = clock
        self._timer = timer
        self._told = 0
        self._ask_s: list[float] = []
        self._stopped: Stop | None = None

    def run(self) -> Run:
        lines: list[Line] = [self._head()]
        waiting: deque[Batch] = deque()
        while self._propose(waiting):
            lines += self._finish(waiting.popleft())
        trials = len(lines) - 1
        stopped = self._stopped or "trials"
        lines.append(
            {
                "kind": "stop",
                "reason": stopped,
                "trials": trials,
                "at_s": rounded(self._clock.now_s),
            }
        )
        return Run(tuple(lines), tuple(self._ask_s))

    def _head(self) -> Line:
        outcomes = self._outcomes
        return {
            "kind": "run",
            "landscape": outcomes.name,
            "workload": outcomes.workload.key,
            "arm": self._arm.name,
            "seed": self._seed,
            "predicted": outcomes.predicted,
            "roof_us": outcomes.roof_us,
            "optimum_us": outcomes.optimum_us,
        }

    def _propose(self, waiting: deque[Batch]) -> bool:
        """Have ``OVERLAP`` batches on their way where there is more to try; any at all?"""
        while len(waiting) < OVERLAP and self._goes_on():
            begun = self._timer()
            batch = self._course.propose()
            self._ask_s.append(self._timer() - begun)
            self._clock.spend(self._experiment.asking_s(self._arm, self._told))
            if not batch.proposals:
                self._stopped = "exhausted"
                break
            wanted = [(p.number, self._outcome(p)) for p in self._within(batch)]
            self._clock.submit(wanted)
            waiting.append(batch)
        return bool(waiting)

    def _goes_on(self) -> bool:
        experiment, course = self._experiment, self._course
        patience, budget_s = experiment.early_stopping, experiment.budget_s
        if self._stopped is None and course.proposed >= experiment.trials:
            self._stopped = "trials"
        elif self._stopped is None and budget_s is not None and self._clock.now_s >= budget_s:
            self._stopped = "budget"
        elif self._stopped is None and patience is not None and course.since_gain >= patience:
            self._stopped = "early stopping"
        return self._stopped is None

    def _within(self, batch: Batch) -> list[Proposal]:
        return [p for p in batch.proposals if p.number < self._experiment.trials]

    def _finish(self, batch: Batch) -> Iterator[Line]:
        """Wait for a batch, yield its lines, and tell it if all of it lies within the bound."""
        wanted = self._within(batch)
        finished_s = self._clock.wait([p.number for p in wanted])
        outcomes = {p.number: self._outcome(p) for p in wanted}
        for proposal in wanted:
            number = proposal.number
            yield line_of(batch.round, proposal, outcomes[number], finished_s[number])
        if len(wanted) == len(batch.proposals):
            self._course.tell(batch, outcomes)
            self._told += len(wanted)

    def _outcome(self, proposal: Proposal) -> Measurement:
        return proposal.refusal or self._outcomes.by_key[proposal.candidate.key].outcome


def line_of(round_: int, proposal: Proposal, outcome: Measurement, at_s: float) -> Line:
    """Return the line of a trial whose outcome was there at ``at_s``."""
    sketch, choices = proposal.candidate.key
    return {
        "kind": "trial",
        "trial": proposal.number,
        "round": round_,
        "sketch": sketch,
        "choices": list(choices),
        "origin": proposal.candidate.origin,
        "score": proposal.candidate.score,
        "program": proposal.fingerprint,
        "us": None if isinstance(outcome, Failed) else outcome.latency_us,
        "failure": outcome.kind.value if isinstance(outcome, Failed) else None,
        "quarantined": isinstance(outcome, Timed) and outcome.quarantined,
        "at_s": rounded(at_s),
    }


def rounded(seconds: float) -> float:
    """Return seconds as lines give them, to the microsecond."""
    return round(seconds, 6)
