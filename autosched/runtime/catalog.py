"""What of a log may be served on one GPU, and why the rest may not. Knows no tensors.

A record counts only if its workload, its GPU and the rendering version are those at hand and its
output was held against the reference. Everything else is counted under its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from autosched.runtime.errors import NoLog
from autosched.runtime.forms import form_of
from measure.log import Damage, best, read
from measure.record import AnyRecord, FinalRecord, RunRecord, TrialRecord


class Refusal(StrEnum):
    """Why a record that did not fail is not served, as it stands in a sentence."""

    PREDICTED = "predicted, not measured"
    FOREIGN = "of another GPU"
    RENDERING = "of another rendering version"
    EVIDENCE = "without evidence of being right"


@dataclass(frozen=True, slots=True)
class Place:
    """Where records would be served: the GPU's name, the target's and the rendering version.

    ``gpus`` are the names that count as this GPU; ``target`` is None where the GPU has no data.
    """

    gpus: tuple[str, ...]
    target: str | None
    rendering_version: int


#: Trials of a workload that are kept for its neighbours to choose from.
MOST_TRIED = 16


@dataclass(frozen=True, slots=True)
class Comparison:
    """The closing comparison of a run: our time and torch's in microseconds, and torch's over
    ours, paired, with the ends of its 95 % interval."""

    ours_us: float
    library_us: float
    ratio: float
    low: float
    high: float

    @property
    def library_won(self) -> bool:
        """Whether torch was faster by more than noise."""
        return self.high < 1.0


@dataclass(frozen=True)
class Catalog:
    """The best record per workload key, and the census of everything else in the log."""

    best: Mapping[str, TrialRecord]
    trials: int = 0
    failed: int = 0
    #: Records refused, by workload key.
    refused: Mapping[str, Counter[Refusal]] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    #: Trials that may be served, by workload key.
    usable: Mapping[str, int] = field(default_factory=dict)
    #: The fastest of them, the fastest first.
    tried: Mapping[str, tuple[TrialRecord, ...]] = field(default_factory=dict)
    #: How the best record was compared with torch at the end of its run, by workload key.
    compared: Mapping[str, Comparison] = field(default_factory=dict)
    #: What runs were asked to tune, as plain data, by the key that they went by.
    specs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def families(self) -> Mapping[str, tuple[tuple[str, tuple[int, ...]], ...]]:
        """Key and extents of every workload, by what it has in common with others: its form."""
        found: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for key, record in self.best.items():
            form = form_of(record.workload.text)
            if form is not None:
                found.setdefault(form.text, []).append((key, form.extents))
        return {text: tuple(held) for text, held in found.items()}

    def refusals(self) -> Counter[Refusal]:
        """Count refused records over all workloads."""
        return sum(self.refused.values(), Counter[Refusal]())


def load_catalog(path: Path, place: Place) -> Catalog:
    """Read the log at ``path``; raises NoLog where there is none, StorageError as reading does."""
    if not path.exists():
        raise NoLog(f"{path}: there is no such log")
    contents = read(path)
    return catalogue(contents.records, contents.damage, place)


def catalogue(records: Iterable[AnyRecord], damage: tuple[Damage, ...], place: Place) -> Catalog:
    """Sort records into what may be served at ``place`` and what may not."""
    kept: list[AnyRecord] = []
    served: dict[str, list[TrialRecord]] = {}
    refused: dict[str, Counter[Refusal]] = {}
    usable: Counter[str] = Counter()
    specs: dict[str, Mapping[str, Any]] = {}
    trials = failed = 0
    for record in records:
        if isinstance(record, RunRecord) and record.workload is not None:
            specs[record.workload.key] = record.spec
        elif isinstance(record, FinalRecord):
            if not record.predicted and record.gpu in place.gpus:
                kept.append(record)
        elif isinstance(record, TrialRecord):
            trials += 1
            if not record.ok:
                failed += 1
            elif (reason := refusal(record, place)) is not None:
                refused.setdefault(record.workload.key, Counter())[reason] += 1
            else:
                kept.append(record)
                usable[record.workload.key] += 1
                served.setdefault(record.workload.key, []).append(record)
    winners = {key: record for (key, _), record in best(kept).items()}
    return Catalog(
        winners,
        trials,
        failed,
        refused,
        damage,
        usable,
        {key: _fastest(records) for key, records in served.items()},
        _compared(kept, winners),
        specs,
    )


def _fastest(records: list[TrialRecord]) -> tuple[TrialRecord, ...]:
    ranked = sorted(records, key=lambda record: (record.quarantined, record.latency_us or 0.0))
    return tuple(ranked[:MOST_TRIED])


def _compared(
    kept: Iterable[AnyRecord], winners: Mapping[str, TrialRecord]
) -> dict[str, Comparison]:
    """Return the last comparison that each winner won and that torch took part in."""
    found: dict[str, Comparison] = {}
    for record in sorted(kept, key=lambda record: record.provenance.time):
        if not isinstance(record, FinalRecord) or record.best is None or record.library is None:
            continue
        winner = winners.get(record.workload.key)
        if winner is None or record.best >= len(record.entrants):
            continue
        entrant = record.entrants[record.best]
        if entrant.program == winner.program and entrant.timing and entrant.ratio:
            ratio, low, high = entrant.ratio
            times = entrant.timing.latency_us, record.library.latency_us
            found[record.workload.key] = Comparison(*times, ratio, low, high)
    return found


def refusal(record: TrialRecord, place: Place) -> Refusal | None:
    """Return why a record that worked is not served at ``place``, or None."""
    if record.predicted:
        return Refusal.PREDICTED
    if record.gpu not in place.gpus or record.target != place.target:
        return Refusal.FOREIGN
    if record.rendering_version != place.rendering_version:
        return Refusal.RENDERING
    evidence = record.evidence
    if evidence is None or not evidence.seeds or not evidence.max_error <= 1.0:
        return Refusal.EVIDENCE
    return None
