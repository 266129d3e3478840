"""Validation errors as one sentence with a place. Knows the schema's fields, no files.

A schema other than that of specs says which model is its root, and which models its keys lead to.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from autosched.spec.document import Document, Path
from autosched.spec.error import SpecError
from autosched.spec.inline import PER_DIMENSION
from autosched.spec.schema import OPS, OWNERS, SpecFields

#: The kind of an error whose message is the wish: what a validator of ours raises.
WISH = "wish"
_WISHES = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def explain(
    document: Document,
    errors: ValidationError,
    root: type[BaseModel] = SpecFields,
    owners: Mapping[str | int, type[BaseModel]] = OWNERS,
) -> SpecError:
    """Return the first error in the order of the document; unknown keys go before missing ones,
    since a key that is missing is often there, misspelt."""
    details = errors.errors(include_url=False)
    first = min(details, key=lambda d: (_RANK.get(d["type"], 1), _order(document, d)))
    return _explain_one(document, first, lambda location: _known(location, root, owners))


_RANK = {"extra_forbidden": 0, "missing": 2}


def _order(document: Document, detail: ErrorDetails) -> tuple[int, int]:
    place = document.values.get(_path(detail["loc"]))
    return (place.line or 0, place.column) if place else (0, 0)


def _explain_one(
    document: Document, detail: ErrorDetails, known: Callable[[Path], tuple[str, ...]]
) -> SpecError:
    location, path = detail["loc"], _path(detail["loc"])
    kind, given = detail["type"], detail["input"]
    if path and path[-1] == "[key]":
        return document.error(path[:-1], _fact(kind, given, detail), key=True)
    if kind == "extra_forbidden":
        return document.error(path, unknown(str(path[-1]), known(location)), key=True)
    if kind == "missing":
        return document.error(path, "is missing")
    if kind == "union_tag_invalid":
        return document.error(
            (*path, "op"), f"{show(given['op'])} is {unknown(str(given['op']), OPS)}"
        )
    return document.error(path, _fact(kind, given, detail))


def _fact(kind: str, given: Any, detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if kind == "union_tag_not_found":
        if not isinstance(given, dict):
            return f"a mapping is expected, not {show(given)}"
        return "says both op and expr" if "op" in given else "says neither op nor expr"
    if kind in _WISHES:
        return f"{_WISHES[kind]} is expected, not {show(given)}"
    if kind == WISH:
        return f"{detail['msg']} is expected, not {show(given)}"
    if kind == "literal_error":
        known = [
            word.strip("' ") for word in str(context["expected"]).replace(" or ", ",").split(",")
        ]
        return f"{show(given)} is {unknown(str(given), known)}"
    if kind == "greater_than_equal":
        return f"{show(given)} is below {context['ge']}"
    if kind == "greater_than":
        return f"{show(given)} is not above {context['gt']}"
    if kind == "less_than_equal":
        return f"{show(given)} is past the limit of {context['le']}"
    if kind == "too_short":
        return "is empty"
    if kind == "finite_number":
        return f"{show(given)} is not finite"
    if kind == "string_pattern_mismatch":
        return f"{show(given)} is not a name of letters, digits, '.', '_' and '-'"
    return f"{show(given)}: {detail['msg'].lower()}"


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the rest of a sentence on a name that is not one of ``known``."""
    names = tuple(known)
    near = difflib.get_close_matches(name[:80], names, n=1)
    return f"unknown, did you mean {near[0]}" if near else f"unknown; known: {', '.join(names)}"


def show(value: Any) -> str:
    """Return a value as a spec writes it, cut short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)[:60]


def _path(location: Path) -> Path:
    """Drop the marks that name the kind of a workload, or which kind of value was tried."""
    kept: list[str | int] = []
    for part in location:
        tried = str(part) in ("int", "str") or str(part).startswith("list[")
        if not str(part).startswith("<") and not (tried and set(kept) & set(PER_DIMENSION)):
            kept.append(part)
    return tuple(kept)


def _known(
    location: Path, root: type[BaseModel], owners: Mapping[str | int, type[BaseModel]]
) -> tuple[str, ...]:
    owner: Any = root
    for part in location[:-1]:
        owner = owners.get(part, owner)
    return tuple(owner.model_fields)
