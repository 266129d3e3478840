"""The order of a run: which batches are proposed, after which outcomes. Measures nothing.

Two batches are on their way at any time: while one is measured, the next is proposed and its
builds start. What is proposed in batch r+1, whether it is proposed at all for want of gains, and
above which time its trials are given up, therefore depends on outcomes through batch r-1 alone,
told in the order of proposals. Knows no clock, no log and no device, so that whoever has the
outcomes can go the same way again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autosched.codegen.render import render
from autosched.tune.candidate import Candidate
from autosched.tune.gain import Gain
from autosched.tune.strategy import Strategy, Told
from measure.measurement import Failed, Failure, Measurement
from search_space.apply import IllegalStep
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: Batches on their way at a time.
OVERLAP = 2
#: The first batches, proposed before any outcome is known, are this share of a whole one.
FIRST_SHARE = 0.5
#: A candidate slower than the incumbent by this factor is not timed to the end.
ABORT_FACTOR = 3.0
#: Times that a strategy is asked again in place of candidates whose program was known.
REFILLS = 4


#: Makes the program of a candidate, or gives the fingerprint of one that is known by that alone;
#: raises IllegalStep.
Render = Callable[[Candidate], Program | str]


@dataclass(frozen=True)
class Proposal:
    """A candidate with its number in the run and its program, or why it has none.

    ``fingerprint`` is the program's, also where only that is at hand; empty where there is none.
    """

    number: int
    candidate: Candidate
    program: Program | None
    refusal: Failed | None = None
    fingerprint: str = ""


@dataclass(frozen=True)
class Batch:
    """Proposals of one round; empty where there is nothing new to propose."""

    round: int
    proposals: tuple[Proposal, ...]
    #: Microseconds, or None before any outcome was told.
    abort_above_us: float | None


class Course:
    """Asks a strategy for batches of ``batch`` candidates and tells it what came of them.

    Batches are whole whatever of them is measured, so that a bound on trials decides where a run
    ends and never what is proposed before. ``render`` makes programs; by default the renderer.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        strategy: Strategy,
        batch: int,
        render: Render | None = None,
    ) -> None:
        self._render = render or _renderer(workload, target)
        self._strategy = strategy
        self._batch = batch
        self._rounds = 0
        self._programs: set[str] = set()
        self._gain = Gain()
        #: How many candidates were proposed.
        self.proposed = 0

    @property
    def since_gain(self) -> int:
        """Trials told since the last gain above noise."""
        return self._gain.since

    def propose(self) -> Batch:
        """Ask for a batch of candidates whose programs are new, asking again for what is not."""
        round_ = self._rounds
        self._rounds += 1
        found: list[Proposal] = []
        wanted = self._size(round_)
        for _ in range(REFILLS):
            asked = self._strategy.ask(wanted - len(found)) if len(found) < wanted else []
            for candidate in asked:
                found += self._admitted(candidate)
            if not asked:
                break
        best_us = self._gain.best_us
        return Batch(round_, tuple(found), None if best_us is None else ABORT_FACTOR * best_us)

    def tell(self, batch: Batch, outcomes: Mapping[int, Measurement]) -> None:
        """Tell what came of every proposal of ``batch``, by its number."""
        told = [Told(p.candidate, outcomes[p.number]) for p in batch.proposals]
        for one in told:
            self._gain.enter(one.measurement)
        self._strategy.tell(told)

    def _size(self, round_: int) -> int:
        share = FIRST_SHARE if round_ < OVERLAP else 1.0
        return max(1, int(share * self._batch))

    def _admitted(self, candidate: Candidate) -> list[Proposal]:
        """Give a candidate a number and its program; drop it if the program was proposed."""
        program, refusal, fingerprint = None, None, ""
        try:
            rendered = self._render(candidate)
        except IllegalStep as error:
            refusal = Failed(Failure.CONSTRAINTS, str(error))
        else:
            program = rendered if isinstance(rendered, Program) else None
            fingerprint = rendered if isinstance(rendered, str) else rendered.fingerprint
            if fingerprint in self._programs:
                return []
            self._programs.add(fingerprint)
        self.proposed += 1
        return [Proposal(self.proposed - 1, candidate, program, refusal, fingerprint)]


def _renderer(workload: Workload, target: Target) -> Render:
    return lambda candidate: render(workload, candidate.schedule, target)
