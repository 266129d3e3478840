"""Outcomes of a landscape for programs that are rendered today. Measures nothing.

A program is known by the schedule it was made from, not by its text, so that a landscape serves
under any rendering version.
"""

from __future__ import annotations

from autosched.landscape.landscape import Landscape, Point
from autosched.tune.candidate import Candidate
from measure.measurement import Timing
from measure.replay_device import Recorded
from measure.service import DeviceInfo
from search_space.apply import IllegalStep
from search_space.program import Program


class RecordedOutcomes:
    """Recorded outcomes of programs whose candidate was made known."""

    def __init__(self, landscape: Landscape) -> None:
        self._landscape = landscape
        self._points: dict[str, Point] = {}

    def learn(self, candidate: Candidate, program: Program) -> None:
        """Remember which schedule ``program`` was rendered from."""
        self._points[program.fingerprint] = self._landscape.by_key[candidate.key]

    def __call__(self, program: Program) -> Recorded:
        """Return what came of ``program``; KeyError if it was never made known."""
        point = self._points[program.fingerprint]
        return Recorded(point.outcome, point.finals_us)

    def fingerprint(self, candidate: Candidate) -> str:
        """Return the fingerprint that the program of ``candidate`` had then, without rendering.

        Raises IllegalStep where it did not render then.
        """
        point = self._landscape.by_key[candidate.key]
        if not point.fingerprint:
            raise IllegalStep(getattr(point.outcome, "detail", "it did not render"))
        return point.fingerprint


def device_info(landscape: Landscape) -> DeviceInfo:
    """Return what measured a landscape, for the records of a run on it."""
    head = landscape.head
    then = head.provenance
    return DeviceInfo(
        "replay",
        head.gpu,
        head.target,
        then.driver,
        then.torch,
        then.triton,
        predicted=head.device == "model",
        rendering_version=head.rendering_version,
    )


def library_timing(landscape: Landscape) -> Timing | None:
    """Return the library's recorded time."""
    return landscape.head.library.timing() if landscape.head.library else None
