"""What serves a workload, from where, and why. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from search_space.program import Program
from search_space.schedule import Schedule
from search_space.workload import Workload

#: A record of the log; one of a workload that differs in one extent; a schedule that the analytic
#: model likes; how torch computes it.
Source = Literal["tuned", "related", "default", "library"]


@dataclass(frozen=True)
class Served:
    """One way to compute a workload. ``schedule`` and ``program`` are None for the library.

    ``reason`` is one sentence: why this, and where it is not tuned, why not. ``latency_us`` is
    measured for "tuned", predicted for "default". ``proven`` says that this very program was
    verified under the versions of Triton and driver at hand; if not, it is verified once, before
    its first use.
    """

    workload: Workload
    source: Source
    reason: str
    schedule: Schedule | None = None
    program: Program | None = None
    latency_us: float | None = None
    proven: bool = False
    #: Whether the library serves since it was measured faster than what the log holds.
    measured: bool = False

    @property
    def missed(self) -> bool:
        """Whether nothing that was tuned for this very workload decided it."""
        return self.source != "tuned" and not self.measured

    @property
    def fingerprint(self) -> str | None:
        """The program's fingerprint, equal wherever the same kernel serves; None for torch."""
        return self.program.fingerprint if self.program else None
