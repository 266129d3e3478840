from __future__ import annotations

import pytest

from autosched.bench.roofline import arithmetic, roofline_us
from autosched.te.operators import matmul
from search_space import target

H200 = target.load("h200")


def test_a_large_product_is_bound_by_arithmetic() -> None:
    work = matmul(4096, 4096, 4096, dtype="float16")
    assert roofline_us(work, H200) == pytest.approx(2 * 4096**3 / 8.0e14 * 1e6)


def test_a_skinny_product_is_bound_by_memory() -> None:
    work = matmul(16, 8192, 8192, dtype="bfloat16")
    moved = 2 * (16 * 8192 + 8192 * 8192 + 16 * 8192)
    assert roofline_us(work, H200) == pytest.approx(moved / 4.3e12 * 1e6)


@pytest.mark.parametrize(
    ("dtype", "precision", "key"),
    [
        ("float16", "ieee", "float16"),
        ("bfloat16", "ieee", "bfloat16"),
        ("float32", "ieee", "float32"),
        ("float32", "tf32", "tf32"),
    ],
)
def test_the_rate_follows_dtype_and_precision(dtype: str, precision: str, key: str) -> None:
    assert arithmetic(matmul(64, 64, 64, dtype=dtype, precision=precision)) == key  # type: ignore[arg-type]
