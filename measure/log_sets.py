"""Logs made of logs: several as one, or the part of one that serves. Knows no file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from measure.log import best, line_of
from measure.record import AnyRecord, FinalRecord, TrialRecord


@dataclass(frozen=True)
class Merged:
    """The records of several logs, each once, and how many lines were there before."""

    records: tuple[AnyRecord, ...]
    repeated: int


def merge(logs: Iterable[Iterable[AnyRecord]]) -> Merged:
    """Return what all logs hold, in their order and that of their lines.

    A line that an earlier log holds too is there once: copies of one log, one of them gone on
    with, make the longer one, as runs are read by the order of their lines.
    """
    seen: set[bytes] = set()
    kept: list[AnyRecord] = []
    repeated = 0
    for records in logs:
        for record in records:
            line = line_of(record)
            if line in seen:
                repeated += 1
            else:
                seen.add(line)
                kept.append(record)
    return Merged(tuple(kept), repeated)


@dataclass(frozen=True)
class Pruned:
    """What is left of a log, and what is not: trials, and lines of any other kind."""

    records: tuple[AnyRecord, ...]
    dropped_trials: int
    dropped_others: int


def prune(records: Sequence[AnyRecord], keep: int) -> Pruned:
    """Return what serves: the best ``keep`` trials of every workload and target, by time among
    those with evidence, and the closing comparisons whose winner is one of them.

    The best record of every task is the same before and after (``log.best``). What runs asked for
    and in which order is dropped: they can be neither resumed nor replayed. Predicted times stay
    only where a task has no others.
    """
    wanted: set[int] = set()
    ranked: dict[tuple[str, str], list[tuple[bool, float, int]]] = {}
    measured = {
        (r.workload.key, r.target) for r in records if isinstance(r, TrialRecord) and _proven(r)
    }
    for place, record in enumerate(records):
        if not isinstance(record, TrialRecord) or record.latency_us is None:
            continue
        task = (record.workload.key, record.target)
        if _proven(record) or (record.predicted and task not in measured):
            rank = (record.quarantined, record.latency_us, place)
            ranked.setdefault(task, []).append(rank)
    for ranks in ranked.values():
        wanted |= {place for *_, place in sorted(ranks)[:keep]}
    winners = best(records).values()
    wanted |= {place for place, r in enumerate(records) if any(r is w for w in winners)}
    programs = {
        (r.workload.key, r.target, r.program)
        for r in (records[place] for place in wanted)
        if isinstance(r, TrialRecord)
    }
    kept = [r for place, r in enumerate(records) if place in wanted or _won(r, programs)]
    trials = sum(isinstance(r, TrialRecord) for r in records)
    left = sum(isinstance(r, TrialRecord) for r in kept)
    others = len(records) - trials - (len(kept) - left)
    return Pruned(tuple(kept), trials - left, others)


def _proven(record: TrialRecord) -> bool:
    return record.ok and not record.predicted and record.evidence is not None


def _won(record: AnyRecord, programs: set[tuple[str, str, str]]) -> bool:
    """Say whether a record is a closing comparison that one of ``programs`` won."""
    if not isinstance(record, FinalRecord) or record.best is None:
        return False
    if record.best >= len(record.entrants):
        return False
    winner = record.entrants[record.best].program
    return (record.workload.key, record.target, winner) in programs
