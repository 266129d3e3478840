"""A device that gives outcomes recorded earlier. Builds nothing, runs nothing, knows no file.

Measures at once and in order: what took minutes on a GPU takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from measure.closing import Closing
from measure.comparison import Comparison, judge
from measure.measurement import Failed, Measurement, Timing
from measure.service import DeviceInfo, OnResult, Pending
from search_space.program import Program


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a program, and its times in turns with others, in rounds; empty if it took no
    part in them."""

    outcome: Measurement
    rounds_us: tuple[float, ...] = ()


class ReplayDevice(Closing):
    """Takes outcomes from ``recorded``, which raises KeyError for a program that was not measured
    then. ``library`` is the library's time in the same rounds. See ``Service``."""

    def __init__(
        self,
        info: DeviceInfo,
        recorded: Callable[[Program], Recorded],
        library: Timing | None,
    ) -> None:
        self._info = info
        self._recorded = recorded
        self._library = library

    @property
    def device(self) -> DeviceInfo:
        """What measured then."""
        return self._info

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        """Deliver everything now."""
        del abort_above_us
        pending = Pending(len(programs), on_result)
        for index, program in enumerate(programs):
            pending.deliver(index, self._recorded(program).outcome)
        return pending

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int = 50
    ) -> Comparison:
        """Compare by recorded times: those taken in turns where every entrant has them.

        Otherwise by each one's own repeats, which were taken at different moments. ``rounds``
        bounds how many count.
        """
        found = [self._recorded(program) for program in programs]
        failures = {n: r.outcome for n, r in enumerate(found) if isinstance(r.outcome, Failed)}
        times = [_times(r, all(r.rounds_us for r in found)) for r in found]
        library_us = self._library.samples_us if library and self._library else None
        rows = [row for row in (*times, library_us) if row]
        count = min(rounds, *(len(row) for row in rows)) if rows else 0
        return judge(
            [row[:count] for row in times],
            failures,
            library_us and library_us[:count],
            None,
            (),
        )

    def drop(self) -> None:
        """Do nothing: nothing is ever pending."""

    def close(self) -> None:
        """Do nothing."""


def _times(recorded: Recorded, in_turns: bool) -> tuple[float, ...]:
    if isinstance(recorded.outcome, Failed):
        return ()
    return recorded.rounds_us if in_turns else recorded.outcome.timing.samples_us
