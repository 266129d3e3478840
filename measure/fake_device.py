"""A device for tests of whatever uses one: no compiler, no GPU, times from a function.

Measures at once and in order, so that nothing depends on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from measure.closing import Closing
from measure.comparison import Comparison, judge
from measure.measurement import (
    CompiledFacts,
    Evidence,
    Failed,
    Measurement,
    Timed,
    Timing,
)
from measure.service import DeviceInfo, OnResult, Pending
from search_space.program import Program

_FACTS = CompiledFacts(64, 0, 16384, 8192, {"HGMMA": 4})
_EVIDENCE = Evidence("none: a fake", (0, 1), 0.5, 1e-3, 1e-3)


class FakeDevice(Closing):
    """Takes microseconds, or a planted failure, from ``outcome``. See ``Service``.

    ``measured`` counts what was measured, each fingerprint once. With ``predicted`` the times
    are marked as a model's.
    """

    def __init__(
        self,
        outcome: Callable[[Program], float | Failed],
        *,
        library_us: float | None = None,
        target_name: str = "h200",
        predicted: bool = False,
    ) -> None:
        self._outcome = outcome
        self._library_us = library_us
        self._target_name = target_name
        self._predicted = predicted
        self._known: dict[str, Measurement] = {}

    @property
    def device(self) -> DeviceInfo:
        """What measures: nothing real."""
        return DeviceInfo("fake", "Fake GPU", self._target_name, "0", "0", "0")

    @property
    def measured(self) -> int:
        """How many distinct programs were measured."""
        return len(self._known)

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        """Measure everything now."""
        del abort_above_us
        pending = Pending(len(programs), on_result)
        for index, program in enumerate(programs):
            key = program.fingerprint
            if key not in self._known:
                self._known[key] = self._measurement(program)
            pending.deliver(index, self._known[key])
        return pending

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int = 50
    ) -> Comparison:
        """Compare without noise."""
        results = self.submit(programs).results()
        failures = {n: result for n, result in enumerate(results) if isinstance(result, Failed)}
        times = [() if isinstance(r, Failed) else (r.latency_us,) * rounds for r in results]
        library_us = (self._library_us,) * rounds if library and self._library_us else None
        return judge(times, failures, library_us, None, (0,))

    def drop(self) -> None:
        """Do nothing: nothing is ever pending."""

    def close(self) -> None:
        """Do nothing."""

    def _measurement(self, program: Program) -> Measurement:
        outcome = self._outcome(program)
        if isinstance(outcome, Failed):
            return outcome
        timing = Timing(outcome, outcome * 0.99, outcome * 1.01, (outcome,) * 7)
        evidence = None if self._predicted else _EVIDENCE
        return Timed(timing, _FACTS, evidence, 0.1, 0.01, self._predicted)
