from __future__ import annotations

import pytest

from autosched.codegen.render import render
from autosched.runtime import default as defaults_module
from autosched.runtime.default import default_schedules
from autosched.te.operators import batch_matmul, matmul
from search_space import target as targets
from search_space.limits import violation
from search_space.rules import sketches
from search_space.workload import Workload

H200 = targets.load("h200")


@pytest.mark.parametrize(
    "workload",
    [
        matmul(4096, 4096, 4096, dtype="float16"),
        matmul(16, 8192, 8192, dtype="bfloat16", trans_b=True),
        matmul(1, 17, 33, dtype="float32"),
        batch_matmul(3, 33, 100, 15, dtype="float16", epilogue=("bias", "gelu")),
    ],
    ids=lambda workload: workload.label,
)
def test_defaults_are_legal_render_and_come_best_first(workload: Workload) -> None:
    defaults = default_schedules(workload, H200)
    times = [default.predicted_us for default in defaults]
    assert times == sorted(times)
    by_name = {sketch.name: sketch for sketch in sketches(workload, H200)}
    for default in defaults:
        sketch = by_name[default.schedule.sketch]
        assert violation(sketch, default.schedule.choices, H200) is None
        assert render(workload, default.schedule, H200).workload_key == workload.key


def test_the_same_workload_gets_the_same_default() -> None:
    workload = matmul(300, 200, 100, dtype="float16")
    first = default_schedules(workload, H200)
    defaults_module._known.clear()
    assert default_schedules(workload, H200) == first
