"""What is read back from a scheduled nest is what the sketch said of it."""

import random

import pytest

from autosched.te import operators
from search_space.apply import IllegalStep, replay
from search_space.describe import describe
from search_space.rules import sketches
from search_space.sketch import CHOICES, fill
from search_space.target import load

H200 = load("h200")
DEFAULTS = {"group": 1, "parts": 1, "split": 1, "ctas": 1}


@pytest.mark.parametrize(
    "workload",
    [
        operators.matmul(300, 264, 1000, dtype="float16"),
        operators.matmul(16, 4096, 4096, dtype="bfloat16", trans_b=True, epilogue=["bias", "relu"]),
        operators.batch_matmul(5, 128, 200, 640, dtype="float32", trans_a=True),
        operators.matmul(256, 384, 512, dtype="float32", precision="ieee"),
    ],
    ids=lambda workload: workload.label,
)
def test_a_nest_describes_itself_as_its_sketch_does(workload) -> None:
    rng = random.Random(0)
    described = 0
    for sketch in sketches(workload, H200):
        for _ in range(20):
            choices = {choice.name: rng.choice(choice.domain) for choice in sketch.choices}
            try:
                nests = replay(workload, fill(sketch, choices))
            except IllegalStep:
                continue
            described += 1
            found = describe(workload, nests)
            assert found is not None
            assert found.structure == sketch.structure
            assert set(found.choices) == set(CHOICES)
            assert found.choices == {**DEFAULTS, **choices}
    assert described > 50


def test_what_is_no_tensor_core_contraction_is_not_described() -> None:
    workload = operators.matmul(32, 32, 32, dtype="float16")
    from search_space.nest import initial

    assert describe(workload, [initial(workload)]) is None
