"""Records of workloads as measured on an H200."""

from __future__ import annotations

from functools import cache

from autosched.codegen.render import RENDERING_VERSION, render
from autosched.runtime.default import default_schedules
from autosched.spec import Task
from measure.record import (
    EvidenceText,
    Provenance,
    RunRecord,
    Success,
    TimingText,
    TrialRecord,
    WorkloadText,
)
from search_space import target as targets
from search_space.schedule import Schedule
from search_space.workload import Workload

H200 = targets.load("h200")
#: Workloads by what they are here for, each with the sketch that is taken.
WORKS = {
    "descriptors": (
        "matmul:m=128,n=64,k=64,dtype=bfloat16,epilogue=bias+relu",
        "contraction.descriptor",
    ),
    "counter": (
        "matmul:m=64,n=64,k=4096,dtype=float16",
        "contraction.pointer.split.counter",
    ),
    "atomic": (
        "matmul:m=32,n=64,k=4096,dtype=float16",
        "contraction.pointer.split.atomic",
    ),
    "prepared": (
        "matmul:m=128,n=100,k=100,dtype=float16,constant=b",
        "contraction.pointer.prepared",
    ),
    "convolution": (
        "conv2d:n=1,h=8,w=8,ci=32,co=32,kh=3,kw=3,pad=1,dtype=float16,layout=NHWC",
        None,
    ),
}
PROVENANCE = Provenance(
    autosched="0.1.0",
    torch="2.11.0",
    triton="3.6.0",
    driver="580.65",
    seed=0,
    time="2026-01-01T00:00:00Z",
)


def run_record(task: Task, run: str) -> RunRecord:
    """The first line of a run of a task."""
    work = task.workload
    return RunRecord(
        run=run,
        spec=dict(task.spec),
        options={},
        device="cuda:0",
        target="h200",
        gpu="NVIDIA H200",
        workload=WorkloadText(key=work.key, text=work.canonical, label=work.label),
        provenance=PROVENANCE,
    )


@cache
def scheduled(work: Workload, sketch: str | None) -> Schedule:
    """The default of a workload by ``sketch``."""
    found = default_schedules(work, H200)
    return next(d.schedule for d in found if sketch in (None, d.schedule.sketch))


def trial_record(task: Task, run: str, sketch: str | None = None) -> TrialRecord:
    """A trial of a task's default by ``sketch``, as measured on an H200."""
    work = task.workload
    schedule = scheduled(work, sketch)
    timing = TimingText(latency_us=9.25, low_us=9.0, high_us=9.5, samples_us=(9.25,))
    return TrialRecord(
        run=run,
        trial=0,
        round=0,
        workload=WorkloadText(key=work.key, text=work.canonical, label=work.label),
        target="h200",
        gpu="NVIDIA H200",
        schedule=schedule.to_data(),
        program=render(work, schedule, H200).fingerprint,
        rendering_version=RENDERING_VERSION,
        measurement=Success(timing=timing, predicted=False, build_s=0.1, run_s=0.1),
        facts=None,
        evidence=EvidenceText(
            reference="torch in float64", seeds=(0, 1), max_error=0.2, rtol=1e-3, atol=1e-3
        ),
        provenance=PROVENANCE,
    )
