"""Plain data and where each part of it was written. Knows no schema and no format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.spec.error import SpecError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A line (None where there are none) and a column, both counted from 1."""

    column: int
    line: int | None = None


@dataclass(frozen=True)
class Document:
    """What was written under ``name``: dicts, lists, strings, numbers, booleans and None.

    ``keys`` and ``values`` give the places of the keys and the values by their path.
    """

    name: str
    data: Any
    keys: Mapping[Path, Place] = field(default_factory=dict)
    values: Mapping[Path, Place] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    #: Written as one argument, whose places have no line.
    inline: bool = False

    def where(self, path: Path, *, key: bool = False) -> str:
        """Return "name:line:column" of a value, or of its key; of what holds it if unknown."""
        return self._written(self._place(path, key))

    def error(
        self, path: Path, fact: str, *, key: bool = False, offset: int | None = None
    ) -> SpecError:
        """Return the error that says ``fact`` of ``path``, at its place.

        ``offset`` counts characters of a text from 0; where the text stands in the document
        otherwise than on one line as it is, the character is named instead.
        """
        place = self._place(path, key)
        named = ".".join(map(str, path))
        if offset is not None:
            moved = self._inside(path, place, offset)
            named += "" if moved else f" at character {offset + 1}"
            place = moved or place
        return SpecError(": ".join(part for part in (self._written(place), named, fact) if part))

    def _place(self, path: Path, key: bool) -> Place:
        first = self.keys if key else self.values
        for end in range(len(path), 0, -1):
            for places in (first, self.keys, self.values):
                if path[:end] in places:
                    return places[path[:end]]
        return Place(1, None if self.inline else 1)

    def _inside(self, path: Path, place: Place, offset: int) -> Place | None:
        text = self.data
        for part in path:
            text = text[part]
        if place.line is None or place.line > len(self.lines):
            return None
        line = self.lines[place.line - 1]
        for start in (place.column - 1, place.column):
            if line[start : start + len(text)] == text:
                return Place(start + offset + 1, place.line)
        return None

    def _written(self, place: Place) -> str:
        numbers = (place.column,) if place.line is None else (place.line, place.column)
        return ":".join(map(str, (self.name, *numbers)))
