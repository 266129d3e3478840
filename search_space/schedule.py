"""Schedules: steps with nothing open, as values and as JSON. Knows nothing of how they came."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from search_space.steps import STEPS, Step, open_choices


class BadSchedule(ValueError):
    """A JSON form that is not a schedule; the message names the step, the wish and the fact."""


@dataclass(frozen=True)
class Schedule:
    """Steps in the order they apply. ``sketch`` and ``choices`` say where they came from and
    take no part in equality: the same steps are the same schedule."""

    steps: tuple[Step, ...]
    sketch: str = field(default="hand", compare=False)
    choices: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        left_open = [name for step in self.steps for name in open_choices(step)]
        if left_open:
            raise BadSchedule(f"a schedule has no open choices, this one has {left_open}")

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form as plain data."""
        return {
            "sketch": self.sketch,
            "choices": dict(self.choices),
            "steps": [step_to_data(step) for step in self.steps],
        }

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return json.dumps(self.to_data(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_data(data: Any) -> Schedule:
        """Read the plain-data form; raises BadSchedule. Values are checked by type alone."""
        if not isinstance(data, Mapping) or not isinstance(data.get("steps"), list):
            raise BadSchedule("a schedule is an object with a list of 'steps'")
        choices = data.get("choices", {})
        if not isinstance(choices, Mapping) or not all(
            _is_name(k) and _is_integer(v) for k, v in choices.items()
        ):
            raise BadSchedule("'choices' maps names to integers")
        sketch = data.get("sketch", "hand")
        if not isinstance(sketch, str) or not _SKETCH.fullmatch(sketch):
            raise BadSchedule(f"'sketch' is a name, not {ascii(sketch)[:60]}")
        return Schedule(tuple(step_from_data(s) for s in data["steps"]), sketch, dict(choices))

    @staticmethod
    def from_json(text: str) -> Schedule:
        """Read the JSON text; raises BadSchedule."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadSchedule(f"not JSON: {error}") from error
        return Schedule.from_data(data)


def step_to_data(step: Step) -> list[Any]:
    """Return ``[name, {field: value}]`` with tuples as lists."""
    return [
        type(step).__name__,
        {f.name: _plain(getattr(step, f.name)) for f in fields(step)},
    ]


def step_from_data(data: Any) -> Step:
    """Read one step; raises BadSchedule on an unknown step, field or type."""
    if not (isinstance(data, list) and len(data) == 2 and isinstance(data[1], dict)):
        raise BadSchedule(f"a step is [name, fields], not {str(data)[:80]!r}")
    name, values = data
    step_type = STEPS.get(name) if isinstance(name, str) else None
    if step_type is None:
        raise BadSchedule(f"step {str(name)[:40]!r} is not known; known: {', '.join(STEPS)}")
    known = {f.name: str(f.type) for f in fields(step_type)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise BadSchedule(f"{name} has no field {unknown[0]!r}; it has {', '.join(known)}")
    for key, value in values.items():
        _check(name, key, known[key], value)
    try:
        step: Step = step_type(**{key: _frozen(value) for key, value in values.items()})
    except TypeError as error:
        raise BadSchedule(f"{name}: {error}") from error
    return step


#: Integers of a step stand for extents, counts and slots: none is near this bound.
LARGEST = 1 << 40


def _check(step: str, key: str, kind: str, value: Any) -> None:
    if kind in ("int", "Int"):
        good = _is_integer(value)
    elif kind == "bool":
        good = type(value) is bool
    elif kind == "tuple[int, ...]":
        good = _is_small(value)
    elif kind == "tuple[tuple[int, ...], ...]":
        good = isinstance(value, list) and all(_is_small(group) for group in value)
    elif kind == "tuple[str, ...]":
        good = isinstance(value, list) and all(_is_name(v) for v in value)
    elif kind == "tuple[tuple[str, ...], ...]":
        good = isinstance(value, list) and all(
            isinstance(group, list) and all(_is_name(v) for v in group) for group in value
        )
    elif kind.startswith("Literal["):
        good = isinstance(value, str) and value in [
            word.strip().strip("\"'") for word in kind[8:-1].split(",")
        ]
    else:
        good = _is_name(value)
    if not good:
        raise BadSchedule(f"{step}.{key} is {kind}, not {str(value)[:60]!r}")


#: Words and dots: what rules call a sketch.
_SKETCH = re.compile(r"[A-Za-z0-9_.+-]{1,120}")
#: Names of steps reach source text, where these mean something else.
RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "tl", "triton"})


def _is_small(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 16 for v in value)


def _is_integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_name(value: Any) -> bool:
    plain = isinstance(value, str) and value.isascii() and value.isidentifier()
    return plain and len(value) < 64 and value not in RESERVED


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
