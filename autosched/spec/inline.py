"""The inline form of a workload, ``op:key=value,...``, as a document. Knows no schema."""

from __future__ import annotations

import re
from typing import Any

from autosched.spec.document import Document, Path, Place
from autosched.spec.error import SpecError

#: What errors call the argument.
NAME = "argument"
LONGEST = 4_000
#: Fields that are mappings.
MAPPINGS = ("strides", "alignment_bytes")
_OP = re.compile(r"([A-Za-z][A-Za-z0-9_]*):")
_INTEGER = re.compile(r"-?[0-9]{1,30}")
#: Fields that may give a number for each spatial dimension, or a pair.
PER_DIMENSION = ("stride", "pad", "dilation", "output_pad")
_DECIMAL = re.compile(r"[0-9]{1,12}\.[0-9]{1,12}")
_WORDS: dict[str, bool] = {"true": True, "false": False}


def is_inline(argument: str) -> bool:
    """Tell whether ``argument`` reads as ``op:...`` rather than as a file's path."""
    return _OP.match(argument) is not None


def read(argument: str) -> Document:
    """Read ``op:key=value,...``; lists are joined by "+" (``epilogue=bias+relu``, ``constant=b``),
    pairs by ":" (``pad=0:1+0:1``).

    A key of a field that is a mapping follows it behind a dot: ``strides.b=0+64+1``. Errors name
    the column of the argument, counted from 1. Raises SpecError.
    """
    match = _OP.match(argument)
    if match is None or len(argument) > LONGEST:
        raise SpecError(
            f"{NAME}:1: a workload in words is op:key=value,..., at most {LONGEST} long"
        )
    fields: dict[str, object] = {"op": match.group(1)}
    keys: dict[Path, Place] = {("workload", "op"): Place(1)}
    values: dict[Path, Place] = {("workload",): Place(1), ("workload", "op"): Place(1)}
    column = match.end() + 1
    for part in argument[match.end() :].split(","):
        key, equals, text = part.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"{NAME}:{column}: key=value is expected, not {part[:40]!r}")
        name = key.strip()
        field, dot, inner = name.partition(".")
        path: Path = (field, inner) if dot and field in MAPPINGS else (name,)
        held: Any = fields if len(path) == 1 else fields.setdefault(field, {})
        if not isinstance(held, dict) or path[-1] in held:
            raise SpecError(f"{NAME}:{column}: workload.{name[:40]}: stands twice")
        for depth in range(len(path)):
            keys.setdefault(("workload", *path[: depth + 1]), Place(column))
            values.setdefault(("workload", *path[: depth + 1]), Place(column + len(key) + 1))
        held[path[-1]] = _value(field, text.strip())
        column += len(part) + 1
    return Document(NAME, {"workload": fields}, keys, values, (argument,), inline=True)


def _pair(text: str) -> object:
    if ":" in text:
        return [_value("", word.strip()) for word in text.split(":")]
    return _value("", text)


def _value(name: str, text: str) -> object:
    if name == "strides":
        return [_value("", word.strip()) for word in text.split("+")]
    if name in PER_DIMENSION and ("+" in text or ":" in text):
        return [_pair(word.strip()) for word in text.split("+")]
    if name == "constant":
        return [word.strip() for word in text.split("+")] if text else []
    if name == "epilogue":
        # A "+" before a letter joins; one before a digit is an exponent's sign.
        return [word.strip() for word in re.split(r"\+(?=\s*[A-Za-z])", text)] if text else []
    if _INTEGER.fullmatch(text):
        return int(text)
    if name == "weight" and _DECIMAL.fullmatch(text):
        return float(text)
    return _WORDS.get(text, text)
