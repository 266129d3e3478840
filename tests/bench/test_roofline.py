from __future__ import annotations

import pytest

from autosched import te
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


def test_a_convolution_counts_its_taps_and_moves_its_tensors_once() -> None:
    x = te.placeholder((8, 56, 56, 64), "X", "float16")
    w = te.placeholder((64, 3, 3, 64), "W", "float16")
    axes = r, s, c = [te.reduce_axis(n, name) for n, name in ((3, "r"), (3, "s"), (64, "c"))]
    y = te.compute(
        (8, 56, 56, 64),
        lambda n, i, j, o: te.sum(x[n, i + r - 1, j + s - 1, c] * w[o, r, s, c], axis=tuple(axes)),
        "Y",
    )
    work = te.workload(y, dtype="float16")
    moved = 2 * (2 * 8 * 56 * 56 * 64 + 64 * 9 * 64)
    operations = 2 * 8 * 56 * 56 * 64 * 9 * 64
    expected = max(moved / 4.3e12, operations / 8.0e14) * 1e6
    assert roofline_us(work, H200) == pytest.approx(expected)
    assert arithmetic(work) == "float16"
