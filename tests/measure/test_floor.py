"""The least time that the data sheet permits, by arithmetic and by memory."""

from __future__ import annotations

import pytest

from autosched.te.operators import matmul
from measure.floor import least_us
from search_space import target as targets

H200 = targets.load("h200")


@pytest.mark.parametrize(
    ("size", "options", "expected_us"),
    [
        ((4096, 4096, 4096), {"dtype": "float16"}, 0.9 * 2 * 4096**3 / 989e6),
        ((4096, 4096, 4096), {"dtype": "float8_e4m3"}, 0.9 * 2 * 4096**3 / 1979e6),
        ((4096, 4096, 4096), {"dtype": "float32", "precision": "tf32"},
         0.9 * 2 * 4096**3 / 494.5e6),
        ((4096, 4096, 4096), {"dtype": "float32"}, 0.9 * 2 * 4096**3 / (494.5e6 / 3)),
        ((16, 8192, 8192), {"dtype": "bfloat16"}, 0.9 * 2 * (16 * 8192 + 8192**2) / 4.8e6),
    ],
)  # fmt: skip
def test_least_time(size: tuple[int, int, int], options: dict, expected_us: float) -> None:
    assert least_us(matmul(*size, **options), H200) == pytest.approx(expected_us)


def test_an_unknown_rate_leaves_the_memory() -> None:
    w = matmul(64, 64, 64, dtype="int8")
    bare = targets.load("a100")
    object.__setattr__(bare, "operations_per_s", {})
    assert least_us(w, bare) == pytest.approx(0.9 * 2 * 64 * 64 / bare.memory_bytes_per_s * 1e6)
