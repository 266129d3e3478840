"""Logs in the forms of others: CSV for spreadsheets, T4 for other autotuners. Knows no file.

T4 is the autotuning community's format for results, version 1.0.0 (the JSON Schemas of
TuningSchema, branch T4, as Kernel Tuner carries them); times in it are in milliseconds, as Kernel
Tuner writes them. Neither form has a place for what a run asked for, its turns or its closing
comparison.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from measure.log import Unreadable, check_form
from measure.record import AnyRecord, Failing, Success, TrialRecord, from_json, to_json

T4_VERSION = "1.0.0"
#: The measurement of a T4 result that holds our whole record, as a text.
OUR_RECORD = "autosched.record"
COLUMNS = (
    "run",
    "trial",
    "round",
    "workload",
    "key",
    "target",
    "gpu",
    "sketch",
    "choices",
    "program",
    "rendering_version",
    "status",
    "failure",
    "detail",
    "latency_us",
    "low_us",
    "high_us",
    "predicted",
    "quarantined",
    "build_s",
    "run_s",
    "registers",
    "stack_bytes",
    "shared_bytes",
    "max_error",
    "autosched",
    "torch",
    "triton",
    "driver",
    "time",
)


class NotT4(ValueError):
    """A text that holds no T4 results; the message says what is off."""


@dataclass(frozen=True)
class Imported:
    """Records found in T4 results, and the results that are of another tuner or damaged."""

    records: tuple[TrialRecord, ...]
    foreign: int
    damaged: int


def trials_of(records: Iterable[AnyRecord]) -> tuple[TrialRecord, ...]:
    """Return the attempts: all that the forms here have a place for."""
    return tuple(record for record in records if isinstance(record, TrialRecord))


def to_csv(trials: Iterable[TrialRecord]) -> str:
    """Return one row for each trial under ``COLUMNS``; single repeats of a time are left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for trial in trials:
        writer.writerow(_row(trial))
    return text.getvalue()


def _row(trial: TrialRecord) -> dict[str, Any]:
    status = trial.measurement
    row: dict[str, Any] = {
        "run": trial.run,
        "trial": trial.trial,
        "round": trial.round,
        "workload": trial.workload.label,
        "key": trial.workload.key,
        "target": trial.target,
        "gpu": trial.gpu,
        "sketch": trial.schedule.get("sketch", ""),
        "choices": json.dumps(trial.schedule.get("choices", {}), sort_keys=True),
        "program": trial.program,
        "rendering_version": trial.rendering_version,
        "status": status.status,
        "build_s": status.build_s,
        "run_s": status.run_s,
        "max_error": trial.evidence.max_error if trial.evidence else "",
        "predicted": trial.predicted,
        "quarantined": trial.quarantined,
        **trial.provenance.model_dump(exclude={"seed"}),
    }
    if isinstance(status, Success):
        row |= status.timing.model_dump(exclude={"samples_us"})
    else:
        row |= {"failure": status.kind, "detail": status.detail}
    if trial.facts:
        row |= trial.facts.model_dump(exclude={"binary_bytes", "instructions"})
    return {n: _unquoted(value) if isinstance(value, str) else value for n, value in row.items()}


def _unquoted(text: str) -> str:
    """Keep spreadsheets from taking a text for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def to_t4(trials: Iterable[TrialRecord]) -> dict[str, Any]:
    """Return T4 results. Each holds the whole record too: ``from_t4`` loses nothing of it."""
    return {"schema_version": T4_VERSION, "results": [_result(trial) for trial in trials]}


def _result(trial: TrialRecord) -> dict[str, Any]:
    status = trial.measurement
    sketch = trial.schedule.get("sketch", "")
    choices = trial.schedule.get("choices", {})
    measurements: list[dict[str, Any]] = []
    times: dict[str, Any] = {"compilation_time": status.build_s * 1e3}
    if isinstance(status, Success):
        times["runtimes"] = [us * 1e-3 for us in status.timing.samples_us]
        time_ms = status.timing.latency_us * 1e-3
        measurements.append({"name": "time", "value": time_ms, "unit": "ms"})
    record = to_json(trial).decode("ascii")
    measurements.append({"name": OUR_RECORD, "value": record, "unit": ""})
    return {
        "timestamp": trial.provenance.time,
        "configuration": {"sketch": sketch, **(choices if isinstance(choices, dict) else {})},
        "objectives": ["time"],
        "times": times,
        "invalidity": status.kind if isinstance(status, Failing) else "correct",
        "correctness": float(not (isinstance(status, Failing) and status.kind == "correctness")),
        "measurements": measurements,
    }


def t4_metadata(trials: Sequence[TrialRecord], system: str) -> dict[str, Any]:
    """Return the T4 metadata of trials: which GPUs and versions they came from."""
    gpus = sorted({trial.gpu for trial in trials})
    versions = sorted(
        {
            f"{name}=={version}"
            for trial in trials
            for name, version in trial.provenance.model_dump(exclude={"seed", "time"}).items()
            if version
        }
    )
    return {
        "schema_version": T4_VERSION,
        "metadata": {
            "hardware": {
                "hardware_description": [{"gpu": gpu} for gpu in gpus],
                "operating_system": system,
            },
            "environment": {"device_query": {}, "requirements": versions},
        },
    }


def from_t4(text: bytes) -> Imported:
    """Read T4 results: those that hold a record of ours. Raises NotT4.

    A configuration of another tuner is no schedule here, and is counted as foreign.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotT4(f"not JSON: {error}") from error
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list):
        raise NotT4("it has no list 'results'")
    records: list[TrialRecord] = []
    foreign = damaged = 0
    for result in results:
        held = _held(result)
        if held is None:
            foreign += 1
            continue
        try:
            raw = held.encode("ascii")
            check_form(raw)
            record = from_json(raw)
        except (UnicodeEncodeError, Unreadable, ValidationError):
            damaged += 1
            continue
        if isinstance(record, TrialRecord):
            records.append(record)
        else:
            damaged += 1
    return Imported(tuple(records), foreign, damaged)


def _held(result: object) -> str | None:
    """Return the text of our record in a result, if it holds one."""
    measurements = result.get("measurements") if isinstance(result, Mapping) else None
    for measurement in measurements if isinstance(measurements, list) else ():
        if isinstance(measurement, Mapping) and measurement.get("name") == OUR_RECORD:
            value = measurement.get("value")
            return value if isinstance(value, str) else ""
    return None
