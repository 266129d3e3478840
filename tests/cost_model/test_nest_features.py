"""Features computed from choices are those of the nest that the choices make."""

import random

import numpy as np
import pytest

from autosched.te.convolution import conv1d, conv2d, conv_transpose2d
from autosched.te.operators import batch_matmul, matmul
from cost_model.features import NAMES, features, features_of
from search_space.apply import IllegalStep, replay
from search_space.case import case_for
from search_space.describe import describe
from search_space.rules import sketches
from search_space.sample import random_choices
from search_space.sketch import fill
from search_space.target import load

H200 = load("h200")
#: Candidates of each sketch.
DRAWN = 3

WORKLOADS = [
    matmul(300, 1000, 5000, dtype="float16", epilogue=("bias", "gelu")),
    matmul(4095, 4096, 4097, dtype="bfloat16"),
    matmul(16, 8192, 8192, dtype="float8_e4m3", trans_b=True),
    matmul(512, 768, 3072, dtype="float32", precision="ieee"),
    batch_matmul(12, 197, 64, 197, dtype="float32", precision="tf32", trans_a=True),
    conv2d(n=4, h=28, w=28, ci=64, co=128, kh=3, kw=3, stride=2, pad=1, dtype="float16"),
    conv2d(n=2, h=30, w=30, ci=32, co=64, kh=3, kw=3, pad=1, dtype="float32", layout="NCHW"),
    conv2d(n=16, h=14, w=14, ci=256, co=512, kh=1, kw=1, dtype="float16", layout="NHWC"),
    conv2d(n=2, h=56, w=56, ci=64, co=64, kh=3, kw=3, pad=1, groups=4, dtype="float16"),
    conv1d(n=1, l=512, ci=128, co=128, kl=3, pad=2, dilation=2, dtype="float16"),
    conv_transpose2d(n=2, h=8, w=8, ci=64, co=32, kh=4, kw=4, stride=2, pad=1, dtype="float16"),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.label)
def test_features_of_choices_are_those_of_the_nest(workload) -> None:
    rng, seen = random.Random(0), 0
    for sketch in sketches(workload, H200):
        for _ in range(DRAWN):
            choices = random_choices(sketch, H200, rng)
            if choices is None:
                break
            try:
                nests = replay(workload, fill(sketch, choices))
            except IllegalStep:
                continue
            found = describe(workload, nests)
            assert (found is not None) == sketch.structure.dot
            if found is None:
                continue
            matrix = np.array([[choices[name] for name in sketch.names]])
            held = {name: np.array([value]) for name, value in found.choices.items()}
            case = case_for(found.structure, held, H200)
            of_choices = features(sketch, matrix, H200)[0]
            of_nest = features_of(workload, case, 1)[0]
            different = ~((of_choices == of_nest) | (np.isnan(of_choices) & np.isnan(of_nest)))
            assert [NAMES[n] for n in np.flatnonzero(different)] == []
            seen += 1
    assert seen >= 2 * DRAWN
