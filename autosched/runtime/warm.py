"""Making ready ahead of the first call: what was done for each workload, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autosched.spec import SpecError, from_data
from search_space.workload import Workload


@dataclass(frozen=True)
class Warmed:
    """One workload made ready: what serves it and why, and the seconds that took.

    ``source`` is "" where it could not be made ready; ``reason`` then says why not.
    """

    label: str
    source: str
    reason: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.label}: {self.source or 'not ready'} in {self.seconds:.2f} s; {self.reason}"


def stated(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Workload | str]:
    """Return the workloads that a log's runs state, by key; why not, where a spec states none.

    A spec comes from a log and is data: one that states another workload than its run says is
    refused.
    """
    found: dict[str, Workload | str] = {}
    for key, spec in specs.items():
        try:
            workload = from_data("the log", spec).workload
        except SpecError as error:
            found[key] = f"its spec states nothing: {error}"
            continue
        matches = workload.key == key
        found[key] = workload if matches else "its spec states another workload"
    return found
