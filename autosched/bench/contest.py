"""What enters an interleaved comparison and what comes out of it. Data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autosched.bench.row import Interval
from search_space.program import Program
from search_space.workload import Workload

#: Entrants beside programs: how torch computes a workload best, and what its compiler makes of
#: that (``torch.compile``, mode "max-autotune-no-cudagraphs").
LIBRARIES = ("torch", "inductor")


@dataclass(frozen=True)
class Contest:
    """Programs by name and libraries, on one workload; the first program is the yardstick."""

    workload: Workload
    programs: Mapping[str, Program]
    libraries: tuple[str, ...]
    rounds: int = 50
    seed: int = 0

    @property
    def yardstick(self) -> str | None:
        """The entrant that the ratios refer to: the first program, else the first library."""
        return next(iter((*self.programs, *self.libraries)), None)


@dataclass(frozen=True)
class Outcome:
    """Medians by entrant, paired ratios (its time over the yardstick's), errors and host cost.

    ``failures`` says why an entrant has no time. ``setup_s`` is what an entrant took before its
    first run (compiling; for inductor its own tuning). ``verified_seeds`` counts,
    by program, the fresh seeds on which it was right beside those of the rounds. ``max_error`` is
    the largest error in tolerances. ``forms`` says by library what it called; ``refused`` which
    other forms of it failed, and why.
    """

    times_us: Mapping[str, Interval] = field(default_factory=dict)
    ratios: Mapping[str, Interval] = field(default_factory=dict)
    rel_err: Mapping[str, float] = field(default_factory=dict)
    host_us: Mapping[str, float] = field(default_factory=dict)
    setup_s: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    verified_seeds: Mapping[str, int] = field(default_factory=dict)
    max_error: Mapping[str, float] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)


Referee = Callable[[Contest], Outcome]
