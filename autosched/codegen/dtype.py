"""How Triton spells an element type."""

from __future__ import annotations

TRITON_NAMES: dict[str, str] = {
    "float16": "tl.float16",
    "bfloat16": "tl.bfloat16",
    "float32": "tl.float32",
    "float64": "tl.float64",
    "float8_e4m3": "tl.float8e4nv",
    "int8": "tl.int8",
    "int32": "tl.int32",
}
