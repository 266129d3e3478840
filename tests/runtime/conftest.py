from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from autosched.codegen.render import RENDERING_VERSION, render
from autosched.runtime.default import Default, default_schedules
from autosched.runtime.device import Setting
from measure.record import (
    EvidenceText,
    Provenance,
    Success,
    TimingText,
    TrialRecord,
    WorkloadText,
)
from search_space import target as targets
from search_space.workload import Workload

H200 = targets.load("h200")


@cache
def defaults(workload: Workload) -> tuple[Default, ...]:
    """Return default schedules for an H200; they take a second, and tests ask for the same."""
    return default_schedules(workload, H200)


@pytest.fixture
def here() -> Setting:
    return Setting("NVIDIA H200", H200, "3.6.0", "580.65")


@pytest.fixture
def record() -> Callable[..., TrialRecord]:
    """Make the record of a workload's ``choice``-th default, as measured on an H200."""

    def make(
        workload: Workload, latency_us: float = 10.0, choice: int = 0, **changes: Any
    ) -> TrialRecord:
        schedule = defaults(workload)[choice].schedule
        timing = TimingText(
            latency_us=latency_us, low_us=latency_us, high_us=latency_us, samples_us=(latency_us,)
        )
        plain = TrialRecord(
            run="r1",
            trial=0,
            round=0,
            workload=WorkloadText(key=workload.key, text=workload.canonical, label=workload.label),
            target="h200",
            gpu="NVIDIA H200",
            schedule=schedule.to_data(),
            program=render(workload, schedule, H200).fingerprint,
            rendering_version=RENDERING_VERSION,
            measurement=Success(timing=timing, predicted=False, build_s=0.1, run_s=0.1),
            facts=None,
            evidence=EvidenceText(
                reference="torch in float64", seeds=(0, 1), max_error=0.2, rtol=1e-3, atol=1e-3
            ),
            provenance=Provenance(
                autosched="0.1.0",
                torch="2.11.0",
                triton="3.6.0",
                driver="580.65",
                seed=0,
                time="2026-01-01T00:00:00Z",
            ),
        )
        return plain.model_copy(update=changes)

    return make
