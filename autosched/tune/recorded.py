"""Runs as a log holds them, and the way through their proposals again. Measures nothing.

What a log holds is compared with what is proposed, and never rendered: a schedule that nobody
proposes here is a difference, whatever it says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.tune.course import OVERLAP, Batch, Course, Proposal
from autosched.tune.result import Trial
from measure.measurement import Measurement
from measure.record import (
    AnyRecord,
    FinalRecord,
    ResumeRecord,
    RoundRecord,
    RunRecord,
    StopRecord,
    TrialRecord,
)

#: A text of a log is shown up to this length, and escaped.
SHOWN = 200


class Diverged(ValueError):
    """What the log holds is not what is proposed now. ``trial`` is the first that differs."""

    def __init__(self, trial: int, fact: str) -> None:
        super().__init__(f"trial {trial}: {fact}")
        self.trial = trial


@dataclass(frozen=True)
class RecordedRun:
    """The lines of one run in the order of the log. ``trials`` are by number; of lines with
    equal numbers the first counts."""

    start: RunRecord
    lines: tuple[AnyRecord, ...]

    @property
    def key(self) -> str | None:
        """The workload's key; None for a run of version 1 that made no attempt."""
        if self.start.workload is not None:
            return self.start.workload.key
        return next((trial.workload.key for trial in self.trials.values()), None)

    @property
    def trials(self) -> dict[int, TrialRecord]:
        """The attempts by number."""
        found: dict[int, TrialRecord] = {}
        for line in self.lines:
            if isinstance(line, TrialRecord):
                found.setdefault(line.trial, line)
        return found

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """The batches that were handed to the device."""
        return tuple(line for line in self.lines if isinstance(line, RoundRecord))

    @property
    def finals(self) -> tuple[FinalRecord, ...]:
        """The final comparisons, one for each time that the run was ended."""
        return tuple(line for line in self.lines if isinstance(line, FinalRecord))

    @property
    def stops(self) -> tuple[StopRecord, ...]:
        """Why the run ended, each time that it did."""
        return tuple(line for line in self.lines if isinstance(line, StopRecord))

    @property
    def options(self) -> Mapping[str, Any]:
        """The options under which the run last went on, as plain data."""
        went_on = [line for line in self.lines if isinstance(line, RunRecord | ResumeRecord)]
        return went_on[-1].options


def runs(records: Iterable[AnyRecord]) -> tuple[RecordedRun, ...]:
    """Return the runs of a log in the order of their first lines.

    Lines of a run whose first line is missing or damaged are left out.
    """
    lines: dict[str, list[AnyRecord]] = {}
    starts: dict[str, RunRecord] = {}
    for record in records:
        lines.setdefault(record.run, []).append(record)
        if isinstance(record, RunRecord):
            starts.setdefault(record.run, record)
    return tuple(RecordedRun(start, tuple(lines[run])) for run, start in starts.items())


def last_run(found: Iterable[RecordedRun], key: str, target: str) -> RecordedRun | None:
    """Return the last run of the workload with that key, for that target."""
    same = [run for run in found if (run.key, run.start.target) == (key, target)]
    return same[-1] if same else None


@dataclass
class Flight:
    """A batch on its way, and what came of its proposals so far, by number."""

    batch: Batch
    outcomes: dict[int, Measurement] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[Proposal, ...]:
        """Proposals without an outcome."""
        return tuple(p for p in self.batch.proposals if p.number not in self.outcomes)


class Passage:
    """The way of ``course`` through all that a run recorded.

    ``passed`` are all batches with their recorded outcomes by number. ``since_gain`` holds, for
    every batch, how many trials had been told since the last gain when it was proposed.
    """

    def __init__(self, course: Course, trials: Mapping[int, TrialRecord]) -> None:
        self._course = course
        self._records = trials
        self._last = max(trials, default=-1)
        self._flights: deque[Flight] = deque()
        self.passed: list[tuple[Batch, dict[int, Measurement]]] = []
        self.since_gain: list[int] = []

    def go(self) -> deque[Flight]:
        """Propose and tell until every record was met, and return the batches on their way.

        They are at most two, and some of their proposals may lack an outcome.

        Raises Diverged where a record is not of what is proposed, or where one is missing on
        whose outcome later ones depended.
        """
        while self._course.proposed <= self._last:
            if len(self._flights) == OVERLAP:
                self._settle(self._flights.popleft())
            self._flights.append(self._flight())
        return self._flights

    @property
    def trials(self) -> Iterator[Trial]:
        """The recorded attempts among the batches passed, in the order of proposals."""
        for batch, outcomes in self.passed:
            for p in batch.proposals:
                if p.number in outcomes:
                    outcome = outcomes[p.number]
                    yield Trial(p.number, batch.round, p.candidate, p.program, outcome)

    def _flight(self) -> Flight:
        self.since_gain.append(self._course.since_gain)
        batch = self._course.propose()
        if not batch.proposals:
            held = next(n for n in sorted(self._records) if n >= self._course.proposed)
            raise Diverged(held, "the log holds it, and there is nothing left to propose")
        flight = Flight(batch)
        self.passed.append((batch, flight.outcomes))
        for proposal in batch.proposals:
            record = self._records.get(proposal.number)
            if record is not None:
                check(batch, proposal, record)
                flight.outcomes[proposal.number] = record.measured()
        return flight

    def _settle(self, flight: Flight) -> None:
        if flight.missing:
            number = flight.missing[0].number
            raise Diverged(number, "the log holds no readable record of it, but of later ones")
        self._course.tell(flight.batch, flight.outcomes)


def check(batch: Batch, proposal: Proposal, record: TrialRecord) -> None:
    """Raise Diverged unless ``record`` is of ``proposal``."""
    held, proposed = record.schedule, proposal.candidate.schedule.to_data()
    program = proposal.fingerprint
    number = proposal.number
    if held != proposed:
        raise Diverged(number, f"the log holds {_shown(held)}; proposed is {_shown(proposed)}")
    if record.program != program:
        fact = f"{_shown(held)} made the program {plain(record.program)}, and now {program}"
        raise Diverged(number, fact)
    if record.round != batch.round:
        raise Diverged(number, f"the log holds it in round {record.round}, not {batch.round}")


def _shown(schedule: Mapping[str, Any]) -> str:
    """Write a schedule by its sketch and choices."""
    choices = schedule.get("choices")
    pairs = choices.items() if isinstance(choices, Mapping) else ()
    text = " ".join(f"{name}={value}" for name, value in pairs)
    return plain(f"{schedule.get('sketch')} {text}".strip()) or "a schedule without a name"


def plain(text: str) -> str:
    """Cut what may be anything to printable ASCII of a bearable length."""
    kept = text[:SHOWN].encode("unicode_escape").decode("ascii")
    return kept if len(text) <= SHOWN else f"{kept}..."
