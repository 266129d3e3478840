from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from autosched.codegen.render import RENDERING_VERSION, render
from autosched.runtime.default import default_schedules
from autosched.runtime.device import setting
from measure.log import LogWriter
from measure.measurement import Timed
from measure.record import (
    Provenance,
    TrialRecord,
    WorkloadText,
    evidence_of,
    facts_of,
    status_of,
)
from measure.service import open_service
from search_space.target import Target
from search_space.workload import Workload


@pytest.fixture(scope="session")
def target() -> Target:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    found = setting(None, torch.cuda.get_device_name).target
    if found is None:
        pytest.skip(f"no target describes {torch.cuda.get_device_name()}")
    return found


@pytest.fixture(scope="session")
def measured(target: Target) -> Callable[..., TrialRecord]:
    """Measure the ``choice``-th default of a workload for real, and make the record of it."""

    def make(workload: Workload, choice: int = 0, **changes: Any) -> TrialRecord:
        schedule = default_schedules(workload, target)[choice].schedule
        program = render(workload, schedule, target)
        with open_service(workload, target, "cuda", workers=1, timeout_s=60.0) as service:
            [measurement] = service.submit([program]).results()
            device = service.device
        assert isinstance(measurement, Timed), measurement
        record = TrialRecord(
            run="test",
            trial=0,
            round=0,
            workload=WorkloadText(key=workload.key, text=workload.canonical, label=workload.label),
            target=target.name,
            gpu=device.gpu_name,
            schedule=schedule.to_data(),
            program=program.fingerprint,
            rendering_version=RENDERING_VERSION,
            measurement=status_of(measurement),
            facts=facts_of(measurement),
            evidence=evidence_of(measurement),
            provenance=Provenance(
                autosched="0",
                torch=device.torch,
                triton=device.triton,
                driver=device.driver,
                seed=0,
                time="2026-01-01T00:00:00+00:00",
            ),
        )
        return record.model_copy(update=changes)

    return make


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Write records to a log and return its path."""

    def make(*records: TrialRecord) -> Path:
        path = tmp_path / "tuned.jsonl"
        with LogWriter(path) as writer:
            for record in records:
                writer.append(record)
        return path

    return make
