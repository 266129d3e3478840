"""Making ready ahead of the first call: what was done for each workload, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.spec import SpecError, from_data
from measure.builder import BuilderPool
from measure.compiler import interpreting
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: Programs from which on building them in processes of their own saves time.
BUILT_AHEAD = 3


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


def build_ahead(programs: Sequence[Program], target: Target, jobs: int) -> None:
    """Fill Triton's cache on disk by ``jobs`` processes; what fails to build is found out when it
    is loaded. A few programs are not worth the processes."""
    if len(programs) < BUILT_AHEAD or interpreting():
        return
    with BuilderPool(min(jobs, len(programs))) as pool:
        for future in [pool.submit(program, target.triton_target) for program in programs]:
            future.result()
