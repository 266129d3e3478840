"""Ways to compute a workload, best first: its record, defaults, torch. Knows no tensors.

Kernel text always comes from replaying a schedule, never from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from autosched.codegen.render import render
from autosched.runtime.bucket import MOST_SLOWDOWN, narrowing
from autosched.runtime.catalog import Catalog, Comparison
from autosched.runtime.default import Default, default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.related import Advice, advice
from autosched.runtime.served import Served, Source
from measure.record import TrialRecord
from search_space.apply import IllegalStep
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload

#: Defaults that are tried before torch, and schedules of neighbours before those.
MOST_DEFAULTS = 3
MOST_RELATED = 2
#: Suggestions that are looked at for those: some may not render.
MOST_ADVISED = 8
#: Whether torch serves where it was measured faster.
Prefer = Literal["best-of", "tuned"]


class Unusable(ValueError):
    """A record that may not serve after all; the message says why."""


def choices(
    workload: Workload,
    catalog: Catalog,
    setting: Setting,
    prefer: Prefer = "best-of",
    buckets: bool = True,
) -> Iterator[Served]:
    """Yield what could serve ``workload``, best first; the library always comes last.

    ``reason`` of each says why nothing better is there. What is yielded renders; whether it
    compiles is for the caller to find out. With "best-of" the library comes first where the run
    that tuned the workload measured it as faster. With ``buckets`` a program that serves a whole
    bucket of extents comes before what is compiled for the extent at hand, unless it should be
    much slower.
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
    defaults = default_schedules(workload, target)
    advised = advice(workload, catalog, target, defaults)
    if buckets:
        yield from _for_a_bucket(workload, catalog, advised, target, why, prefer)
    if advised is not None:
        yield from _advised(workload, advised, target, why, prefer)
    yield from _defaults(workload, defaults, target, why)
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


def _for_a_bucket(
    workload: Workload,
    catalog: Catalog,
    advised: Advice | None,
    target: Target,
    why: str,
    prefer: Prefer,
) -> Iterator[Served]:
    """Yield what serves the whole bucket, unless something else should be much faster."""
    made = narrowing(workload, catalog, target)
    if made is None:
        return
    if advised is not None and advised.suggestions:
        if made.estimate_us > MOST_SLOWDOWN * advised.suggestions[0].estimate_us:
            return
        torch_us = advised.library_us
        if prefer == "best-of" and torch_us is not None and torch_us < made.estimate_us:
            return
    reason = f"{why}; {made.reason}"
    yield Served(workload, "related", reason, made.schedule, made.program, made.estimate_us)


def _advised(
    workload: Workload, advised: Advice, target: Target, why: str, prefer: Prefer
) -> Iterator[Served]:
    """Yield what its neighbours in the log suggest, or torch where it should be faster."""
    if prefer == "best-of" and advised.library_wins:
        best_us = advised.suggestions[0].estimate_us
        reason = (
            f"{why}; by what was measured {advised.where}, torch should take "
            f"{advised.library_us:.4g} us and the best schedule {best_us:.4g} us"
        )
        yield Served(workload, "library", reason)
    seen: set[str] = set()
    for suggestion in advised.suggestions[:MOST_ADVISED]:
        if len(seen) == MOST_RELATED:
            return
        try:
            program = render(workload, suggestion.schedule, target)
        except IllegalStep:
            continue
        if program.fingerprint not in seen:
            seen.add(program.fingerprint)
            by = f"{suggestion.schedule.sketch}, as measured {advised.where}, serves"
            if not suggestion.measured:
                by = f"a default by {suggestion.schedule.sketch} serves"
            source: Source = "related" if suggestion.measured else "default"
            estimate_us = suggestion.estimate_us
            yield Served(
                workload, source, f"{why}; {by}", suggestion.schedule, program, estimate_us
            )


def why_not_logged(workload: Workload, catalog: Catalog) -> str:
    """Say why the catalogue has no record of a workload."""
    refused = catalog.refused.get(workload.key)
    if not refused:
        return "the log has no record of this workload"
    parts = [f"{count} {reason}" for reason, count in refused.most_common()]
    return f"the log has no usable record of this workload: {', '.join(parts)}"


def _defaults(
    workload: Workload, defaults: Sequence[Default], target: Target, why: str
) -> Iterator[Served]:
    seen: set[str] = set()
    for default in defaults:
        try:
            program = render(workload, default.schedule, target)
        except IllegalStep:
            continue  # the model's next choice may render
        if program.fingerprint in seen or len(seen) == MOST_DEFAULTS:
            continue
        seen.add(program.fingerprint)
        reason = f"{why}; a default by {default.schedule.sketch} serves"
        yield Served(workload, "default", reason, default.schedule, program, default.predicted_us)
