from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from autosched.bench.contest import Contest
from autosched.bench.referee import GpuReferee
from autosched.codegen.render import render
from autosched.runtime.default import default_schedules
from autosched.runtime.device import setting
from autosched.te.operators import matmul
from search_space.program import Program
from search_space.workload import Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]


def program(workload: Workload) -> Program:
    target = setting(None, lambda: torch.cuda.get_device_name()).target
    if target is None:
        pytest.skip("no target describes this GPU")
    return render(workload, default_schedules(workload, target)[0].schedule, target)


def test_programs_torch_and_its_compiler_are_compared_on_the_same_data() -> None:
    workload = matmul(256, 256, 256, dtype="float16", epilogue=("bias", "relu"))
    contest = Contest(workload, {"ours": program(workload)}, ("torch", "inductor"), rounds=20)
    with GpuReferee() as referee:
        made = referee(contest)
    assert made.failures == {}
    assert set(made.times_us) == {"ours", "torch", "inductor"}
    for name, interval in made.times_us.items():
        assert 0 < interval.low <= interval.value <= interval.high, name
        assert made.rel_err[name] < 1e-2
        assert made.host_us[name] > 0
    assert made.ratios["ours"].value == 1.0


def test_a_wrong_program_is_taken_out_and_the_others_are_timed() -> None:
    workload = matmul(256, 256, 256, dtype="float16")
    right = program(workload)
    kernel = right.kernels[-1]
    doubled = kernel.source.replace("tl.dot(", "2 * tl.dot(")
    assert doubled != kernel.source
    wrong = replace(right, kernels=(*right.kernels[:-1], replace(kernel, source=doubled)))
    contest = Contest(workload, {"ours": right, "wrong": wrong}, ("torch",), rounds=12)
    with GpuReferee() as referee:
        made = referee(contest)
    assert set(made.times_us) == {"ours", "torch"}
    assert "times the tolerance" in made.failures["wrong"]
