"""Element types by name. Knows their size and kind, nothing of how a compiler spells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type: its name in specs and logs, its size in bytes and its kind."""

    name: str
    size_bytes: int
    kind: Kind


DTYPES: dict[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        Dtype("float16", 2, "float"),
        Dtype("bfloat16", 2, "float"),
        Dtype("float32", 4, "float"),
        Dtype("float64", 8, "float"),
        Dtype("float8_e4m3", 1, "float"),
        Dtype("int8", 1, "int"),
        Dtype("int32", 4, "int"),
    )
}


def size_bytes(name: str) -> int:
    """Return the size of one element of the dtype called ``name``, in bytes."""
    return DTYPES[name].size_bytes


def accumulator(name: str) -> str:
    """Return the dtype in which sums over elements of ``name`` are kept.

    Narrow floats accumulate in float32 and narrow integers in int32, as the tensor cores do.
    """
    if DTYPES[name].kind == "int":
        return "int32"
    return "float64" if name == "float64" else "float32"
