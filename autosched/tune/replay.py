"""Goes a recorded run's way again and says where it parts. Needs no device and measures nothing.

Proposals, the times above which trials were given up, stops and the entrants and winners of final
comparisons follow from recorded outcomes; a budget that was spent and a wish of the user do not,
and are taken as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.tune.course import OVERLAP, Course
from autosched.tune.identity import differences, identity
from autosched.tune.options import BadOptions, Options
from autosched.tune.recorded import Diverged, Passage, RecordedRun
from autosched.tune.result import Trial, fastest
from autosched.tune.strategy import Strategy
from measure.record import (
    AnyRecord,
    FinalRecord,
    ResumeRecord,
    RoundRecord,
    RunRecord,
    StopRecord,
    TrialRecord,
)
from search_space.target import Target
from search_space.workload import Workload


@dataclass(frozen=True)
class Verdict:
    """What came of a replay. ``difference`` is the first, in a sentence; None where all is equal.

    ``trial`` is the trial that it lies at, if it lies at one. ``changed`` are sentences on what
    proposals depend on and is not as it was. ``trials`` and ``rounds`` are those of the log.
    """

    trials: int
    rounds: int
    difference: str | None
    trial: int | None = None
    changed: tuple[str, ...] = ()


def replay(
    run: RecordedRun, workload: Workload, target: Target, strategy: Strategy, batch: int
) -> Verdict:
    """Propose what ``run`` proposed, retraining included; ``strategy`` must be new."""
    changed = differences(run.start.identity, identity(workload, target, strategy, batch))
    course = Course(workload, target, strategy, batch)
    trials = run.trials
    passage = Passage(course, trials)
    try:
        flights = passage.go()
    except Diverged as error:
        return Verdict(len(trials), len(passage.passed), str(error), error.trial, changed)
    if len(flights) == OVERLAP and not flights[0].missing:
        course.tell(flights[0].batch, flights[0].outcomes)
    decisions = _Decisions(run, passage, course)
    return Verdict(len(trials), len(passage.passed), decisions.difference(), None, changed)


class _Decisions:
    """Follows the lines of a run beside its trials."""

    def __init__(self, run: RecordedRun, passage: Passage, course: Course) -> None:
        self._run = run
        self._passed = passage.passed
        self._course = course
        #: Trials told since the last gain, as known when each batch was proposed, and now.
        self._since = [*passage.since_gain, course.since_gain]
        self._known = {trial.number: trial for trial in passage.trials}
        self._done: dict[int, Trial] = {}
        #: Options of the session that lines belong to, and its first batch.
        self._options: Options | None = None
        self._first = 0

    def difference(self) -> str | None:
        """Return what first does not follow from the outcomes before it."""
        return next((fact for line in self._run.lines for fact in self._facts(line)), None)

    def _facts(self, line: AnyRecord) -> Iterator[str]:
        options = self._options
        match line:
            case RunRecord() | ResumeRecord():
                self._options, self._first = _options(line.options), self._next_round
            case TrialRecord():
                self._done[line.trial] = self._known[line.trial]
            case RoundRecord():
                yield from self._round(line)
            case FinalRecord() if options is not None:
                yield from self._final(line, options)
            case StopRecord() if options is not None:
                yield from self._stop(line, options)

    @property
    def _next_round(self) -> int:
        return max((trial.round for trial in self._done.values()), default=-1) + 1

    def _round(self, line: RoundRecord) -> Iterator[str]:
        if line.round >= len(self._passed):
            return  # Killed before any outcome of it.
        then, now = line.abort_above_us, self._passed[line.round][0].abort_above_us
        if then != now:
            yield f"round {line.round}: given up above {_us(then)} then, above {_us(now)} now"

    def _final(self, line: FinalRecord, options: Options) -> Iterator[str]:
        trials = [self._done[number] for number in sorted(self._done)]
        held = [entrant.trial for entrant in line.entrants]
        now = [trial.number for trial in fastest(trials, options.finals)]
        if held != now:
            yield f"final: the log compares trials {held}, the fastest are {now}"
        best = _best(line)
        if line.best != best:
            yield f"final: the log calls entrant {line.best} the best, by its times it is {best}"

    def _stop(self, line: StopRecord, options: Options) -> Iterator[str]:
        after, reason = self._next_round, line.reason
        if reason != "interrupted" and line.trials != len(self._done):
            yield f"stop: after {line.trials} trials, and the log holds {len(self._done)} before it"
        if reason == "trials":
            yield from self._ended(options.trials)
        patience = options.early_stopping
        if patience is not None:
            for round_ in range(self._first, after):
                if self._since[round_] >= patience:
                    yield f"round {round_}: {self._since[round_]} trials after the last gain"
        if reason == "early stopping" and (patience is None or self._since[after] < patience):
            yield f"stop: for want of a gain, {self._since[after]} trials after the last one"
        at_the_end = after == len(self._passed)
        if reason == "exhausted" and at_the_end and self._course.propose().proposals:
            yield "stop: nothing was left to propose, and now there is"

    def _ended(self, bound: int) -> Iterator[str]:
        proposed = [p.number for batch, _ in self._passed for p in batch.proposals]
        missing = [n for n in proposed if n < bound and n not in self._done]
        if missing:
            yield f"stop: all of {bound} trials done, and trial {missing[0]} has no readable record"
        if len(proposed) < bound:
            yield f"stop: all of {bound} trials done, and the log holds {len(proposed)}"


def _options(data: Mapping[str, Any]) -> Options | None:
    try:
        return Options.from_data(data)
    except BadOptions:
        return None


def _us(value_us: float | None) -> str:
    return "no time" if value_us is None else f"{value_us:.6g} us"


def _best(line: FinalRecord) -> int | None:
    timed = [(e.timing.latency_us, n) for n, e in enumerate(line.entrants) if e.timing is not None]
    return min(timed)[1] if timed else None
