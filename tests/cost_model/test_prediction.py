"""The time of a schedule is the time that the analytic model gives its sketch and choices."""

import numpy as np
import pytest

from autosched.te import operators
from cost_model.analytic_model import predict_us
from cost_model.prediction import predict_schedule_us
from search_space.rules import sketches
from search_space.schedule import Schedule
from search_space.sketch import fill
from search_space.steps import Bind, Split, Tile
from search_space.target import load

H200 = load("h200")


def test_a_schedule_is_predicted_as_its_choices_are() -> None:
    workload = operators.matmul(32, 1024, 4096, dtype="float16", epilogue=("bias",))
    for sketch in sketches(workload, H200):
        choices = {c.name: c.domain[len(c.domain) // 2] for c in sketch.choices} | (
            {"parts": 1} if "parts" in sketch.names else {}
        )
        row = np.array([[choices[name] for name in sketch.names]])
        expected = float(predict_us(sketch, row, H200)[0])
        assert predict_schedule_us(workload, fill(sketch, choices), H200) == pytest.approx(expected)


def test_a_schedule_off_the_tensor_cores_has_no_prediction() -> None:
    workload = operators.matmul(32, 32, 32, dtype="float16")
    steps = (
        Split("i", "i0", "i1", 16),
        Split("j", "j0", "j1", 16),
        Tile((("i1",), ("j1",))),
        Bind(("i0", "j0")),
    )
    assert predict_schedule_us(workload, Schedule(steps), H200) is None
