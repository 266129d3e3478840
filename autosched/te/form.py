"""A computation in words, as data. Knows no grammar: ``text`` reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from search_space.workload import Precision


@dataclass(frozen=True)
class Stored:
    """How an input is stored: shape, dtype, strides in elements (row-major by default).

    A ``constant`` input stays the same from call to call.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    alignment_bytes: int = 16
    constant: bool = False


@dataclass(frozen=True)
class Output:
    """How the output is stored. ``dtype`` defaults to that of what is reduced.

    ``shape`` follows from the left side; at affine positions it may be said, and is else the
    least that holds all of them from 0 on.
    """

    dtype: str | None = None
    strides: tuple[int, ...] | None = None
    alignment_bytes: int = 16
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Form:
    """The fields of a spec: one or more statements, the last of them the output's.

    ``epilogue`` is a value over the output's name and axes, put in place of each element.
    """

    expr: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, Stored]
    epilogue: str | None = None
    output: Output = field(default_factory=Output)
    precision: Precision = "ieee"
