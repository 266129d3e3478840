"""Ways to compute a workload, best first: its record, defaults, torch. Knows no tensors.

Kernel text always comes from replaying a schedule, never from the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from autosched.codegen.render import render
from autosched.runtime.catalog import Catalog, Comparison
from autosched.runtime.default import default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.related import neighbours, suggestions
from autosched.runtime.served import Served
from measure.record import TrialRecord
from search_space.apply import IllegalStep
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload

#: Defaults that are tried before torch, and schedules of neighbours before those.
MOST_DEFAULTS = 3
MOST_RELATED = 2
#: Whether torch serves where it was measured faster.
Prefer = Literal["best-of", "tuned"]


class Unusable(ValueError):
    """A record that may not serve after all; the message says why."""


def choices(
    workload: Workload, catalog: Catalog, setting: Setting, prefer: Prefer = "best-of"
) -> Iterator[Served]:
    """Yield what could serve ``workload``, best first; the library always comes last.

    ``reason`` of each says why nothing better is there. What is yielded renders; whether it
    compiles is for the caller to find out. With "best-of" the library comes first where the run
    that tuned the workload measured it as faster.
    """
    target = setting.target
    if target is None:
        yield Served(workload, "library", f"no target describes the GPU {setting.gpu!r}")
        return
    record = catalog.best.get(workload.key)
    why = why_not_logged(workload, catalog)
    compared = catalog.compared.get(workload.key)
    if record is not None and prefer == "best-of" and compared and compared.library_won:
        yield Served(workload, "library", _torch_won(compared), measured=True)
    if record is not None:
        try:
            yield tuned(workload, record, catalog, setting, target)
            why = "its record did not compile or run here"
        except Unusable as error:
            why = f"its record is not usable: {error}"
    yield from _related(workload, catalog, target, why, prefer)
    yield from _defaults(workload, target, why)
    yield Served(workload, "library", f"{why}; no default schedule works")


def tuned(
    workload: Workload, record: TrialRecord, catalog: Catalog, setting: Setting, target: Target
) -> Served:
    """Replay and render a record; raises Unusable where that is not what was measured."""
    if record.workload.text != workload.canonical:
        raise Unusable("its key is that of another workload")
    try:
        schedule = Schedule.from_data(record.schedule)
        program = render(workload, schedule, target)
    except (BadSchedule, IllegalStep) as error:
        raise Unusable(f"its schedule does not replay: {error}") from error
    if program.fingerprint != record.program:
        raise Unusable("it renders to another program than the one that was measured")
    count = catalog.usable.get(workload.key, 0)
    reason = f"best of {count} measured, {record.latency_us:.4g} us on {record.gpu}"
    proven = setting.same_tools(record.provenance)
    return Served(workload, "tuned", reason, schedule, program, record.latency_us, proven)


def _torch_won(compared: Comparison) -> str:
    c = compared
    return (
        f"torch was measured faster than the best that was tuned: {c.library_us:.4g} us and "
        f"{c.ours_us:.4g} us, its time {c.ratio:.3f} [{c.low:.3f}, {c.high:.3f}] of ours"
    )


def _related(
    workload: Workload, catalog: Catalog, target: Target, why: str, prefer: Prefer
) -> Iterator[Served]:
    """Yield what its neighbours in the log suggest, unless torch was faster for all of them."""
    near = neighbours(workload, catalog)
    known = [c for n in near if (c := catalog.compared.get(n.key)) is not None]
    if prefer == "best-of" and known and all(compared.library_won for compared in known):
        there = " and ".join(str(neighbour.extent) for neighbour in near)
        reason = f"{why}; where {near[0].here} is {there}, torch was measured faster"
        yield Served(workload, "library", reason)
        return
    seen: set[str] = set()
    for suggestion in suggestions(workload, near, target):
        if len(seen) == MOST_RELATED:
            return
        try:
            program = render(workload, suggestion.schedule, target)
        except IllegalStep:
            continue
        if program.fingerprint not in seen:
            seen.add(program.fingerprint)
            reason = f"{why}; {suggestion.reason}, serves"
            yield Served(workload, "related", reason, suggestion.schedule, program)


def why_not_logged(workload: Workload, catalog: Catalog) -> str:
    """Say why the catalogue has no record of a workload."""
    refused = catalog.refused.get(workload.key)
    if not refused:
        return "the log has no record of this workload"
    parts = [f"{count} {reason}" for reason, count in refused.most_common()]
    return f"the log has no usable record of this workload: {', '.join(parts)}"


def _defaults(workload: Workload, target: Target, why: str) -> Iterator[Served]:
    seen: set[str] = set()
    for default in default_schedules(workload, target):
        try:
            program = render(workload, default.schedule, target)
        except IllegalStep:
            continue  # the model's next choice may render
        if program.fingerprint in seen or len(seen) == MOST_DEFAULTS:
            continue
        seen.add(program.fingerprint)
        reason = f"{why}; a default by {default.schedule.sketch} serves"
        yield Served(workload, "default", reason, default.schedule, program, default.predicted_us)
