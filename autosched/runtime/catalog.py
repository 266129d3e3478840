"""What of a log may be served on one GPU, and why the rest may not. Knows no tensors.

A record counts only if its workload, its GPU and the rendering version are those at hand and its
output was held against the reference. Everything else is counted under its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from autosched.runtime.errors import NoLog
from measure.log import Damage, best, read
from measure.record import AnyRecord, FinalRecord, TrialRecord


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
    refused: dict[str, Counter[Refusal]] = {}
    usable: Counter[str] = Counter()
    trials = failed = 0
    for record in records:
        if isinstance(record, FinalRecord):
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
    winners = {key: record for (key, _), record in best(kept).items()}
    return Catalog(winners, trials, failed, refused, damage, usable)


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
