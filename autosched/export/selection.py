"""Which workloads of a log can be exported for one target, and why the others cannot.

Nothing is exported that ``autosched.load`` would not serve as tuned without proving it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autosched.runtime.catalog import Catalog, catalogue
from autosched.runtime.choice import Unusable, tuned
from autosched.runtime.device import Setting, setting
from autosched.spec import SpecError, from_data
from measure.log import LogContents
from measure.record import FinalRecord, RunRecord, TrialRecord, WorkloadText
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload


@dataclass(frozen=True)
class Selected:
    """A workload that is exported: its best record, and the program that this renders to.

    ``ratio`` is the library's time over its own, paired, as the run's closing comparison found it:
    median, low, high; None where that has no such entrant.
    """

    workload: Workload
    record: TrialRecord
    program: Program
    ratio: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Refused:
    """A workload that is not exported, and why."""

    key: str
    label: str
    reason: str


class NoSuchWorkload(ValueError):
    """A name that no workload of the log goes by; the message names those that there are."""


def select(
    contents: LogContents,
    target: Target,
    only: Sequence[str] = (),
    workloads: Iterable[Workload] = (),
) -> tuple[Selected | Refused, ...]:
    """Return what of a log is exported for ``target`` and what is not, in the order of the log.

    ``only`` names workloads by label or key. ``workloads`` are those that the log has records of
    but, pruned or merged of parts, no run that states them. Raises NoSuchWorkload.
    """
    here = setting(target, lambda: None)
    catalog = catalogue(contents.records, contents.damage, here.place)
    texts = _named(contents, only)
    stated = _stated(contents) | {workload.key: workload for workload in workloads}
    found = [_select(text, catalog, here, target, stated.get(key)) for key, text in texts]
    ratios = _ratios(contents)
    return tuple(
        replace(one, ratio=ratios.get((one.record.run, one.record.trial)))
        if isinstance(one, Selected)
        else one
        for one in found
    )


def _select(
    text: WorkloadText,
    catalog: Catalog,
    here: Setting,
    target: Target,
    workload: Workload | str | None,
) -> Selected | Refused:
    def refused(reason: str) -> Refused:
        return Refused(text.key, text.label, reason)

    record = catalog.best.get(text.key)
    if record is None:
        return refused(_why_not(text.key, catalog))
    if not isinstance(workload, Workload):
        return refused(
            workload or "no run in the log says what it computes: give its spec (--spec)"
        )
    measured_by = record.provenance.triton.partition("+")[0]
    if measured_by != here.triton:
        return refused(
            f"it was verified with Triton {measured_by or '(unknown)'}, and Triton here is "
            f"{here.triton or '(unknown)'}: what it would compile was never run"
        )
    try:
        served = tuned(workload, record, catalog, here, target)
    except Unusable as error:
        return refused(str(error))
    if served.program is None:
        return refused(served.reason)
    return Selected(workload, record, served.program)


def _why_not(key: str, catalog: Catalog) -> str:
    refused = catalog.refused.get(key)
    if not refused:
        return "every trial of it failed"
    parts = [f"{count} {reason}" for reason, count in refused.most_common()]
    return f"the log has no usable record of it: {', '.join(parts)}"


def _named(contents: LogContents, only: Sequence[str]) -> list[tuple[str, WorkloadText]]:
    """Return the log's workloads by key, those that ``only`` names if it names any."""
    texts: dict[str, WorkloadText] = {}
    for record in contents.records:
        if isinstance(record, TrialRecord):
            texts.setdefault(record.workload.key, record.workload)
    names = {name for text in texts.values() for name in (text.key, text.label)}
    for name in only:
        if name not in names:
            known = "; ".join(text.label or text.key for text in texts.values())
            raise NoSuchWorkload(f"the log has no workload {name!r}; it has: {known or 'none'}")
    wanted = set(only)
    return [(k, t) for k, t in texts.items() if not only or wanted & {t.key, t.label}]


def _ratios(contents: LogContents) -> dict[tuple[str, int], tuple[float, float, float]]:
    """Return what closing comparisons measured against the library, by run and trial."""
    return {
        (record.run, entrant.trial): entrant.ratio
        for record in contents.records
        if isinstance(record, FinalRecord) and not record.predicted
        for entrant in record.entrants
        if entrant.ratio is not None
    }


def _stated(contents: LogContents) -> dict[str, Workload | str]:
    """Return the workloads that runs of the log state, by their own keys; else, by the key that
    the run goes by, why it states none."""
    found: dict[str, Workload | str] = {}
    for record in contents.records:
        if not isinstance(record, RunRecord):
            continue
        try:
            workload = from_data("the log", record.spec).workload
        except SpecError as error:
            if record.workload is not None:
                reason = f"its run does not say what it computes: {error}"
                found.setdefault(record.workload.key, reason)
            continue
        found[workload.key] = workload
    return found
