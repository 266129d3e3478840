"""Ways to compute a workload, best first: its record, defaults, torch. Knows no tensors.

Kernel text always comes from replaying a schedule, never from the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.codegen.render import render
from autosched.runtime.catalog import Catalog
from autosched.runtime.default import default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.served import Served
from measure.record import TrialRecord
from search_space.apply import IllegalStep
from search_space.schedule import BadSchedule, Schedule
from search_space.target import Target
from search_space.workload import Workload

#: Defaults that are tried before torch.
MOST_DEFAULTS = 3


class Unusable(ValueError):
    """A record that may not serve after all; the message says why."""


def choices(workload: Workload, catalog: Catalog, setting: Setting) -> Iterator[Served]:
    """Yield what could serve ``workload``, best first; the library always comes last.

    ``reason`` of each says why nothing better is there. What is yielded renders; whether it
    compiles is for the caller to find out.
    """
    target = setting.target
    if target is None:
        yield Served(workload, "library", f"no target describes the GPU {setting.gpu!r}")
        return
    record = catalog.best.get(workload.key)
    why = why_not_logged(workload, catalog)
    if record is not None:
        try:
            yield tuned(workload, record, catalog, setting, target)
            why = "its record did not compile or run here"
        except Unusable as error:
            why = f"its record is not usable: {error}"
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
