"""A log of a few workloads as measured on an H200, and the folder that is exported from it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sample_log import H200, WORKS, run_record, trial_record

from autosched.export.folder import Exported, export
from autosched.spec import load
from measure.log import LogWriter, read
from measure.record import RunRecord, TrialRecord

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes records to a log."""

    def make(*records: RunRecord | TrialRecord) -> Path:
        path = tmp_path / "tuned.jsonl"
        with LogWriter(path) as log:
            for record in records:
                log.append(record)
        return path

    return make


@dataclass(frozen=True)
class Sample:
    """An exported folder, the log that it came of, and what was said of it."""

    log: Path
    made: Exported
    #: Names of workloads by what they are here for.
    names: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.made.folder


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Export all of WORKS, once."""
    log = tmp_path_factory.mktemp("export") / "tuned.jsonl"
    keys = {}
    with LogWriter(log) as writer:
        for why, (spec, sketch) in WORKS.items():
            [task] = load(spec)
            keys[task.workload.key] = why
            writer.append(run_record(task, why))
            writer.append(trial_record(task, why, sketch))
    made = export(read(log), H200, log.parent / "kernels")
    names = {keys[one.selected.workload.key]: one.name for one in made.workloads}
    return Sample(log, made, names)
