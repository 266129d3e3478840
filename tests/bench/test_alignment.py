from __future__ import annotations

import pytest

from autosched.bench.alignment import kind
from autosched.te.operators import matmul


@pytest.mark.parametrize(
    ("k", "dtype", "options", "expected"),
    [
        (64, "float16", {}, "aligned"),
        (60, "float16", {}, "unaligned"),
        (64, "float16", {"trans_a": True}, "aligned"),
        (64, "float8_e4m3", {"trans_b": True, "out_dtype": "bfloat16"}, "aligned"),
        (64, "float8_e4m3", {"out_dtype": "bfloat16"}, "unaligned"),
        (64, "float32", {"precision": "tf32", "trans_b": True}, "aligned"),
        (64, "float32", {"precision": "tf32"}, "unaligned"),
        (64, "float32", {}, "ieee"),
    ],
)
def test_kinds(k: int, dtype: str, options: dict[str, object], expected: str) -> None:
    assert kind(matmul(64, 64, k, dtype=dtype, **options)) == expected  # type: ignore[arg-type]
