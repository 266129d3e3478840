"""How quantities, intervals, censuses and schedules are written for people. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields

from search_space.schedule import Schedule
from search_space.steps import Open, Step


def microseconds(value_us: float) -> str:
    """Write a time with four significant digits: ``187.3 us``, ``1.042 ms``."""
    if value_us >= 1000:
        return f"{value_us / 1000:.4g} ms"
    return f"{value_us:.4g} us"


def interval(value: float, low: float, high: float, unit: str = "") -> str:
    """Write a value and the ends of its 95 % confidence interval, if these differ."""
    tail = f" {unit}" if unit else ""
    ends = "" if low == high else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.4g}{tail}{ends}"


def duration(seconds: float) -> str:
    """Write how long something takes, to the second: ``8 s``, ``2:05``, ``1:02:05``."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def count(number: int, noun: str) -> str:
    """Return a number of things: "1 trial", "2 trials"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def census(failures: Mapping[str, int]) -> str:
    """Write failures by kind, the commonest first: ``3 compile, 1 timeout``."""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {kind}" for kind, count in ordered if count) or "none"


def constant(names: Sequence[str]) -> str:
    """Mark what was prepared before it was timed: " (constant: B)", or nothing."""
    return f" (constant: {', '.join(names)})" if names else ""


def schedule_lines(schedule: Schedule) -> Iterable[str]:
    """Yield one line a step, as it could stand in a schedule written by hand."""
    return (step_text(step) for step in schedule.steps)


def step_text(step: Step) -> str:
    """Write a step as the Python that makes it; fields at their defaults are left out.

    An open choice stands as its bare name.
    """
    held = ((f, getattr(step, f.name)) for f in fields(step))
    shown = (
        f"{f.name}={value.choice if isinstance(value, Open) else repr(value)}"
        for f, value in held
        if f.default is MISSING or value != f.default
    )
    return f"{type(step).__name__}({', '.join(shown)})"
