"""What a page is made of: sections, figures under titles, tables of text, numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Grid:
    """A table of the page: columns and cells as text; those from ``numbers`` on stand right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 1


@dataclass(frozen=True)
class Part:
    """A section: what it is called, what it says, its figures and its tables."""

    title: str
    text: str
    figures: Sequence[str] = ()
    grids: Sequence[Grid] = ()


def titled(title: str, figure: str) -> str:
    """Return a figure under its title."""
    safe = title.replace("&", "&amp;").replace("<", "&lt;")
    return f"<figure><figcaption>{safe}</figcaption>{figure}</figure>"


def percent(value: Any, digits: int = 2) -> str:
    """Write a share in percent; a dash for none."""
    return "-" if value in (None, "") else f"{100 * float(value):.{digits}f} %"


def number(value: Any) -> str:
    """Write a number to three digits behind the point; a dash for none."""
    return "-" if value in (None, "") else f"{float(value):.3f}"


def plain(value: Any) -> str:
    """Write a count or seconds; what is missing never was."""
    return "never" if value in (None, "") else f"{float(value):.4g}"


def interval(held: Mapping[str, Any], write: Any) -> str:
    """Write the ends of an interval by ``write``, nothing where they are unknown."""
    ends = (held.get("low"), held.get("high"))
    return "" if None in ends or "" in ends else f"[{write(ends[0])}, {write(ends[1])}]"


def ratio(held: Sequence[float] | None) -> str:
    """Write a ratio and its interval; a dash for none."""
    return "-" if not held else f"{held[0]:.4f} [{held[1]:.4f}, {held[2]:.4f}]"
