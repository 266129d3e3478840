"""What would serve a workload and why, in words and as data. Starts and compiles nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from autosched.runtime.served import Served
from search_space.workload import Workload

#: Ways after the first that are told: there may be one for each sketch.
MOST_FURTHER = 4


@dataclass(frozen=True)
class Explanation:
    """What serves a workload, what comes after it, and whether this process has it ready.

    ``further`` are tried in turn where the first does not compile or run. ``str`` of it is a few
    lines for people.
    """

    workload: Workload
    first: Served
    further: tuple[Served, ...]
    ready: bool

    def to_data(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "key": self.workload.key,
            "label": self.workload.label,
            "ready": self.ready,
            **_data(self.first),
            "further": [_data(served) for served in self.further],
        }

    def __str__(self) -> str:
        state = "ready in this process" if self.ready else "not yet compiled in this process"
        lines = [f"{self.workload.label or self.workload.key}", f"  {_line(self.first)}"]
        if self.first.program is not None:
            proof = (
                "verified by the same compiler and driver"
                if self.first.proven
                else ("verified once before its first use")
            )
            lines.append(f"    {proof}; {state}")
        lines += [f"  else {_line(served)}" for served in self.further]
        return "\n".join(lines)


def explanation(workload: Workload, ways: Iterable[Served], ready: Served | None) -> Explanation:
    """Return the explanation of ways to serve a workload; ``ready`` is what has served it here."""
    found = []
    for served in ways:
        found.append(served)
        if len(found) > MOST_FURTHER:
            break
    if ready is not None:
        found = [ready, *(served for served in found if served.fingerprint != ready.fingerprint)]
    return Explanation(workload, found[0], tuple(found[1:]), ready is not None)


def _line(served: Served) -> str:
    by = f" by {served.schedule.sketch}" if served.schedule else ""
    return f"{served.source}{by}: {served.reason}"


def _data(served: Served) -> dict[str, Any]:
    schedule = served.schedule
    return {
        "source": served.source,
        "reason": served.reason,
        "sketch": schedule.sketch if schedule else None,
        "choices": dict(schedule.choices) if schedule and schedule.choices else None,
        "program": served.fingerprint,
        "latency_us": served.latency_us,
        "proven": served.proven,
    }
