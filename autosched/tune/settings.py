"""What the fields of settings, frozen dataclasses of plain values, may be.

A field says in its metadata what bounds it (``whole``, ``number``, ``share``); words are a
``Literal``. Knows no strategy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from cost_model.settings import BadSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Bounds:
    """The least and the most that a number may be."""

    least: float
    most: float


def whole(default: int | None, least: int, most: int) -> Any:
    """Declare a whole number; one that is None by default may stay so."""
    return field(default=default, metadata={"bounds": Bounds(least, most)})


def number(default: float, least: float, most: float) -> Any:
    """Declare a number."""
    return field(default=default, metadata={"bounds": Bounds(least, most)})


def share(default: float) -> Any:
    """Declare a part of a whole, from 0 to 1."""
    return number(default, 0.0, 1.0)


def check(settings: DataclassInstance) -> None:
    """Raise BadSettings unless every field is what it was declared to be."""
    hints = get_type_hints(type(settings))
    for one in fields(settings):
        value = getattr(settings, one.name)
        wish = _wish(hints[one.name], one.metadata.get("bounds"), value)
        if wish is not None:
            raise BadSettings(one.name, wish, ascii(value)[:60])


def _wish(hint: Any, bounds: Bounds | None, value: Any) -> str | None:
    """Return what ``value`` should have been, or None where it is right."""
    options = get_args(hint)
    if bounds is None:
        if hint is bool:
            return None if type(value) is bool else "true or false"
        good = isinstance(value, str) and value in options
        return None if good else f"one of {', '.join(map(str, options))}"
    is_whole = hint is int or int in options
    kinds = (int,) if is_whole else (int, float)
    if value is None and type(None) in options:
        return None
    if type(value) in kinds and bounds.least <= value <= bounds.most:
        return None
    what = "a whole number" if is_whole else "a number"
    return f"{what} from {bounds.least:g} to {bounds.most:g}"
