"""The analytic model of kernels without a dot: what it orders, and what bounds it."""

import itertools

import numpy as np
import pytest

from autosched.te import text
from autosched.te.convolution import depthwise_conv2d
from cost_model.analytic_model import predict_us
from cost_model.machine import roofline_us
from search_space import limits
from search_space import target as targets
from search_space.rules import sketches

H200 = targets.load("h200")


def tensor(*shape: int, dtype: str = "float32") -> text.Stored:
    return text.Stored(shape, dtype)


LARGE = {"i": 8192, "j": 8192}
PIXELS = depthwise_conv2d(
    n=128, h=165, w=165, ci=96, kh=5, kw=5, stride=2, pad=2, dtype="float32", layout="NCHW"
)
CHANNELS = depthwise_conv2d(
    n=16, h=112, w=112, ci=64, kh=3, kw=3, stride=2, pad=1, dtype="float32", layout="NHWC"
)
ALL = text.parse("S[] += X[i,j]", LARGE, {"X": tensor(8192, 8192)})
COLUMNS = text.parse("S[j] += X[i,j]", LARGE, {"X": tensor(8192, 8192)})
CHAIN = text.parse("Y[i] = relu(2*X[i]+1)/2", {"i": 10_000_000}, {"X": tensor(10_000_000)})
ROWS = text.parse(
    "M[i] max= X[i,j]; E[i] += exp(X[i,j]-M[i]); Y[i,j] = exp(X[i,j]-M[i]) / E[i]",
    LARGE,
    {"X": tensor(8192, 8192, dtype="float16")},
)


def predictions(workload):
    """Every sketch without a dot, its legal choices and their predicted times."""
    for sketch in sketches(workload, H200):
        matrix = np.array(list(itertools.product(*(c.domain for c in sketch.choices))), np.int64)
        legal = matrix[~limits.violations(sketch, matrix, H200)]
        if len(legal) and not sketch.structure.dot:
            yield sketch, legal, predict_us(sketch, legal, H200)


def best(workload) -> dict[str, tuple[float, dict[str, int]]]:
    return {
        sketch.name: (
            float(us.min()),
            dict(zip(sketch.names, map(int, legal[us.argmin()]), strict=True)),
        )
        for sketch, legal, us in predictions(workload)
    }


@pytest.mark.parametrize("workload", [PIXELS, CHANNELS, ALL, COLUMNS, CHAIN, ROWS])
def test_no_prediction_beats_the_roofline(workload) -> None:
    for _, _, us in predictions(workload):
        assert np.isfinite(us).all()
        assert us.min() > roofline_us(workload, H200)


def test_rows_that_share_what_they_load_are_computed_together() -> None:
    found = best(PIXELS)
    one, two, four = (found[f"direct.pixels{end}"][0] for end in ("", ".rows2", ".rows4"))
    assert four < two < one


def test_channels_are_read_in_long_rows() -> None:
    _, choices = best(CHANNELS)["direct.channels"]
    assert choices["tile_n"] * 4 >= 128


def test_one_output_wants_many_programs() -> None:
    found = best(ALL)
    alone, _ = found["reduction"]
    shared, choices = found["reduction.split.counter"]
    assert shared < alone / 10
    assert choices["split"] >= 2 * H200.multiprocessors


def test_columns_are_shared_where_their_blocks_are_few() -> None:
    found = best(COLUMNS)
    assert found["reduction.split.counter"][0] < 0.9 * found["reduction"][0]


@pytest.mark.parametrize("workload", [CHAIN, ROWS], ids=["a chain", "softmax"])
def test_what_passes_through_once_takes_little_more_than_its_bytes(workload) -> None:
    us = min(us for us, _ in best(workload).values())
    assert us < 1.45 * 1e6 * workload.compulsory_bytes / H200.measured_memory_bytes_per_s
