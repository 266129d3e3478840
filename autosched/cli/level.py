"""One workload at each level between formula and machine code, as text and as plain data.

Prints nothing, needs no GPU, and does not know where a schedule came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autosched.cli import wording
from autosched.cli.nest_text import nest_text
from autosched.codegen.render import render
from autosched.machine import unknown
from autosched.runtime.default import default_schedules
from autosched.te import text
from measure.builder import compile_text
from search_space.apply import replay
from search_space.nest import initial_nests
from search_space.program import Program
from search_space.rules import NoSketch, sketches
from search_space.schedule import Schedule
from search_space.target import Target
from search_space.workload import Workload

COMPILED = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
LEVELS = ("te", "nest", "sketches", "schedule", "triton", *COMPILED)


@dataclass(frozen=True)
class Subject:
    """What is shown. ``chosen`` is None until a level needs a schedule that nobody named."""

    workload: Workload
    target: Target
    chosen: Schedule | None

    @property
    def schedule(self) -> Schedule:
        """The schedule that was named, else the one that the analytic model likes best."""
        if self.chosen is not None:
            return self.chosen
        defaults = default_schedules(self.workload, self.target)
        if not defaults:
            raise NoSketch("no legal schedule is known for this computation on this target")
        return defaults[0].schedule

    @property
    def program(self) -> Program:
        """What the schedule renders to."""
        return render(self.workload, self.schedule, self.target)


@dataclass(frozen=True)
class Shown:
    """One level of one workload, as text and as plain data."""

    text: str
    data: dict[str, Any]


def _plain(name: str, written: str) -> Shown:
    return Shown(written, {name: written})


def _te(subject: Subject) -> Shown:
    return _plain("te", text.format(subject.workload))


def _nest(subject: Subject) -> Shown:
    """Show the nest before any step, or, where a schedule was named, after all of them."""
    if subject.chosen is None:
        nests = initial_nests(subject.workload)
    else:
        nests = replay(subject.workload, subject.chosen)
    return _plain("nest", "\n".join(nest_text(nest) for nest in nests))


def _sketches(subject: Subject) -> Shown:
    found = sketches(subject.workload, subject.target)
    lines = []
    for sketch in found:
        lines.append(f"{sketch.name}: {sketch.size} combinations")
        lines += [f"  {c.name} in {', '.join(map(str, c.domain))}" for c in sketch.choices]
        lines += [f"  {wording.step_text(step)}" for step in sketch.steps]
    total = sum(sketch.size for sketch in found)
    lines.append(f"{len(found)} sketches, {total} combinations before limits")
    data = [
        {"name": s.name, "size": s.size, "choices": {c.name: list(c.domain) for c in s.choices}}
        for s in found
    ]
    return Shown("\n".join(lines), {"sketches": data})


def _schedule(subject: Subject) -> Shown:
    schedule = subject.schedule
    choices = ", ".join(f"{name}={value}" for name, value in schedule.choices.items())
    mark = wording.constant(subject.workload.constants)
    lines = (f"# {schedule.sketch} {choices}".rstrip() + mark, *wording.schedule_lines(schedule))
    return Shown("\n".join(lines), {"schedule": schedule.to_data()})


def _triton(subject: Subject) -> Shown:
    program = subject.program
    texts = [
        f"# grid {kernel.grid}, {kernel.warps} warps, {kernel.stages} stages"
        f"{', prepares: runs once, untimed' * kernel.prepares}\n{kernel.source}"
        for kernel in program.kernels
    ]
    data = {
        "fingerprint": program.fingerprint,
        "kernels": [
            {
                "name": k.name,
                "grid": list(k.grid),
                "warps": k.warps,
                "prepares": k.prepares,
                "source": k.source,
            }
            for k in program.kernels
        ],
    }
    return Shown("\n\n".join(texts), data)


def _compiled(subject: Subject, level: str) -> Shown:
    kernels = compile_text(subject.program, subject.target.triton_target)
    for name, levels in kernels.items():
        if level not in levels:
            known = [known for known in COMPILED if known in levels]
            raise unknown(f"{subject.target.name}: level of {name}", level, known)
    texts = {name: levels[level] for name, levels in kernels.items()}
    return Shown("\n\n".join(texts.values()), {"kernels": texts})


_SOURCES: dict[str, Callable[[Subject], Shown]] = {
    "te": _te,
    "nest": _nest,
    "sketches": _sketches,
    "schedule": _schedule,
    "triton": _triton,
}


def show(subject: Subject, level: str) -> Shown:
    """Return one of LEVELS. Raises NoSketch, IllegalStep, BuildError and UnknownName."""
    return _SOURCES[level](subject) if level in _SOURCES else _compiled(subject, level)
