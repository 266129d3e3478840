"""A stated part of a space: some of its sketches, and some values of their choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from search_space.sketch import Choice, Sketch


class BadSubspace(ValueError):
    """A part that names what is not there, or holds nothing; the message says which."""


def narrowed(
    sketches: Sequence[Sketch], names: Sequence[str], fixed: Mapping[str, Sequence[int]]
) -> list[Sketch]:
    """Return the sketches called ``names``, all without any, with choices only of ``fixed``.

    A narrowed sketch makes the same schedules as the whole one. Sketches that lack a choice of
    ``fixed`` stay as they are in it. Raises BadSubspace.
    """
    known = [sketch.name for sketch in sketches]
    for name in names:
        if name not in known:
            raise BadSubspace(f"sketch {name!r} is none of this workload: {', '.join(known)}")
    kept = [sketch for sketch in sketches if not names or sketch.name in names]
    for name, values in fixed.items():
        _check(kept, name, values)
    found = [_narrowed(sketch, fixed) for sketch in kept]
    full = [sketch for sketch in found if all(choice.domain for choice in sketch.choices)]
    if not full:
        raise BadSubspace("no sketch has these values of its choices together")
    return full


def _check(sketches: Sequence[Sketch], name: str, values: Sequence[int]) -> None:
    domains = [c.domain for sketch in sketches for c in sketch.choices if c.name == name]
    if not domains:
        choices = dict.fromkeys(c.name for sketch in sketches for c in sketch.choices)
        raise BadSubspace(f"no sketch has a choice {name!r}; there are {', '.join(choices)}")
    every = sorted({value for domain in domains for value in domain})
    for value in values:
        if value not in every:
            raise BadSubspace(f"{name}={value} is in no domain; there are {every}")


def _narrowed(sketch: Sketch, fixed: Mapping[str, Sequence[int]]) -> Sketch:
    choices = tuple(
        Choice(c.name, tuple(v for v in c.domain if v in fixed.get(c.name, c.domain)))
        for c in sketch.choices
    )
    return replace(sketch, choices=choices)
