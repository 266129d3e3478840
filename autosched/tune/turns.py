"""The turns of several runs, as a log holds them: in which order, and whether they follow.

Needs outcomes only: proposals are compared run by run (``replay``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.tune.course import OVERLAP
from autosched.tune.gain import Gain
from autosched.tune.options import BadOptions, Options
from autosched.tune.scheduler import BadScheduler, History, Stake, make
from measure.record import (
    AnyRecord,
    ResumeRecord,
    RoundRecord,
    RunRecord,
    StopRecord,
    SuiteRecord,
    TrialRecord,
)

#: A turn: the position of the task, and the round of its run.
Turn = tuple[int, int]


@dataclass(frozen=True)
class TurnsVerdict:
    """What came of choosing again, in one session of a suite; None where all is equal."""

    suite: SuiteRecord
    turns: int
    difference: str | None

    @property
    def equal(self) -> bool:
        """Was every turn given to the same task?"""
        return self.difference is None


def turns_of(records: Iterable[AnyRecord], runs: Sequence[str | None]) -> tuple[Turn, ...]:
    """Return the turns that a log holds of ``runs``, in the order in which they were granted."""
    places = {run: n for n, run in enumerate(runs) if run is not None}
    found: dict[Turn, None] = {}
    for record in records:
        if isinstance(record, RoundRecord | TrialRecord) and record.run in places:
            found.setdefault((places[record.run], record.round))
    return tuple(found)


def replay_turns(
    records: Sequence[AnyRecord], stakes: Mapping[str, Stake]
) -> Iterator[TurnsVerdict]:
    """Choose again whose turn it was, in every session in which runs took turns.

    ``stakes`` are those of the runs of the log, by name; the weights are taken from the sessions.
    """
    starts = [n for n, record in enumerate(records) if isinstance(record, SuiteRecord)]
    for start in starts:
        suite = records[start]
        assert isinstance(suite, SuiteRecord)  # noqa: S101  picked above
        later = (n for n in starts if n > start and _shares(records[n], suite))
        end = next(later, len(records))
        yield _Session(suite, records[:start], records[start:end], stakes).verdict()


def _shares(record: AnyRecord, suite: SuiteRecord) -> bool:
    return isinstance(record, SuiteRecord) and bool({*record.runs} & {*suite.runs})


@dataclass
class _Session:
    """The lines before a session, and its own."""

    suite: SuiteRecord
    before: Sequence[AnyRecord]
    lines: Sequence[AnyRecord]
    stakes: Mapping[str, Stake]
    #: Runs that have come to their own end.
    closed: set[int] = field(default_factory=set)
    outcomes: dict[Turn, dict[int, TrialRecord]] = field(default_factory=dict)
    #: Numbers of trials by turn, those included whose outcome was never written.
    handed: dict[Turn, set[int]] = field(default_factory=dict)
    options: dict[int, Options] = field(default_factory=dict)
    stops: dict[int, str] = field(default_factory=dict)

    def verdict(self) -> TurnsVerdict:
        runs = self.suite.runs
        granted = [*turns_of(self.before, runs)]
        count = len(granted)
        order = turns_of([*self.before, *self.lines], runs)
        try:
            difference = self._difference(granted, order[count:])
        except BadScheduler as error:
            difference = str(error)
        return TurnsVerdict(self.suite, len(order) - count, difference)

    def _difference(self, granted: list[Turn], new: Sequence[Turn]) -> str | None:
        suite = self.suite
        if len(suite.weights) != len(suite.runs):
            return f"it names {len(suite.runs)} runs and {len(suite.weights)} weights"
        stakes = [
            replace(self.stakes.get(run, Stake()), weight=weight)
            for run, weight in zip(suite.runs, suite.weights, strict=True)
        ]
        scheduler = make(suite.scheduler, stakes, suite.settings)
        self._read()
        for turn in new:
            n = scheduler.choose(self._histories(granted))
            while n is not None and n != turn[0] and self._ended(n, granted):
                self.closed.add(n)
                n = scheduler.choose(self._histories(granted))
            if n != turn[0]:
                whose = "nobody's" if n is None else f"that of {suite.runs[n]}"
                return (
                    f"turn {len(granted)}: the log holds round {turn[1]} of "
                    f"{suite.runs[turn[0]]}; by outcomes it is {whose}"
                )
            granted.append(turn)
        return None

    def _read(self) -> None:
        """Sort the lines: outcomes by turn, in the order of proposals, and how each run went."""
        places = {run: n for n, run in enumerate(self.suite.runs)}
        for record in (*self.before, *self.lines):
            n = places.get(record.run)
            if n is None:
                continue
            if isinstance(record, TrialRecord):
                self.outcomes.setdefault((n, record.round), {}).setdefault(record.trial, record)
                self.handed.setdefault((n, record.round), set()).add(record.trial)
            elif isinstance(record, RoundRecord):
                self.handed.setdefault((n, record.round), set()).update(record.trials)
            elif isinstance(record, RunRecord | ResumeRecord):
                try:
                    self.options[n] = Options.from_data(record.options)
                except BadOptions:
                    self.options.pop(n, None)
                self.stops.pop(n, None)
            elif isinstance(record, StopRecord):
                self.stops[n] = record.reason

    def _histories(self, granted: Sequence[Turn]) -> list[History]:
        """Return what is known when the next turn is chosen: all but the last ones' outcomes."""
        counts = Counter(n for n, _ in granted)
        best: dict[int, list[float | None]] = {n: [] for n in range(len(self.suite.runs))}
        for turn in granted[: max(0, len(granted) - OVERLAP + 1)]:
            held = best[turn[0]]
            times = [t.latency_us for t in self.outcomes.get(turn, {}).values()]
            known = [us for us in (*times, *held[-1:]) if us is not None]
            held.append(min(known, default=None))
        return [History(counts[n], tuple(best[n]), n not in self.closed) for n in best]

    def _ended(self, n: int, granted: Sequence[Turn]) -> bool:
        """Whether the run had come to its own end after the turns ``granted``."""
        rounds = [round_ for task, round_ in granted if task == n]
        options = self.options.get(n)
        if options is None or n in self.closed:
            return False
        if self.stops.get(n) == "exhausted" and (n, len(rounds)) not in self.handed:
            return True
        if sum(len(self.handed.get((n, round_), ())) for round_ in rounds) >= options.trials:
            return True
        gain = Gain()
        for round_ in rounds[: max(0, len(rounds) - OVERLAP + 1)]:
            batch = self.outcomes.get((n, round_), {})
            for number in sorted(batch):
                gain.enter(batch[number].measured())
        patience = options.early_stopping
        return patience is not None and gain.since >= patience
