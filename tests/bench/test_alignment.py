from __future__ import annotations

import pytest

from autosched import te
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


def test_what_reads_through_windows_or_multiplies_nothing_is_of_no_kind() -> None:
    x, w = te.placeholder((64,), "X", "float32"), te.placeholder((3,), "W", "float32")
    r = te.reduce_axis(3, "r")
    windows = te.compute((64,), lambda i: te.sum(x[i + r - 1] * w[r], axis=r), "Y")
    assert kind(te.workload(windows)) is None
    assert kind(te.workload(te.compute((64,), lambda i: te.relu(x[i]), "Y"))) is None
