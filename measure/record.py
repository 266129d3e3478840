"""The lines of a log as typed values, and how measurements become them. Knows no file.

Everything that is read is checked here: types, bounds, finite numbers, and no unknown field. A
schedule stays plain data; whoever replays it checks it against the steps.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from measure.measurement import (
    CompiledFacts,
    Evidence,
    Failed,
    Failure,
    Measurement,
    Timed,
    Timing,
)

#: The version of the form that this module writes and reads.
VERSION: Literal[1] = 1
_LARGEST = 1 << 53

Count = Annotated[int, Field(ge=0, le=_LARGEST)]
Seconds = Annotated[float, Field(ge=0)]
Microseconds = Annotated[float, Field(gt=0)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class WorkloadText(_Line):
    """A workload as a log names it: its key, its canonical text and a label for people."""

    key: str
    text: str
    label: str


class Provenance(_Line):
    """Where a line came from. Versions are texts; an empty one was not to be had."""

    autosched: str
    torch: str
    triton: str
    driver: str
    seed: int
    #: UTC, ISO 8601.
    time: str


class TimingText(_Line):
    """A time in microseconds: the median, its 95 % interval and the samples kept."""

    latency_us: Microseconds
    low_us: Microseconds
    high_us: Microseconds
    samples_us: tuple[Microseconds, ...]

    @staticmethod
    def of(timing: Timing) -> TimingText:
        """Take a timing over."""
        return TimingText(
            latency_us=timing.latency_us,
            low_us=timing.low_us,
            high_us=timing.high_us,
            samples_us=timing.samples_us,
        )

    def timing(self) -> Timing:
        """Return the timing."""
        return Timing(self.latency_us, self.low_us, self.high_us, self.samples_us)


class Success(_Line):
    """A program that built, matched the reference and ran."""

    status: Literal["ok"] = "ok"
    timing: TimingText
    predicted: bool
    build_s: Seconds
    run_s: Seconds


class Failing(_Line):
    """A program that did not get as far as a time."""

    status: Literal["failed"] = "failed"
    kind: Literal["timeout", "compile", "runtime", "correctness", "constraints"]
    detail: str
    build_s: Seconds
    run_s: Seconds


class FactsText(_Line):
    """What the compiled kernels use."""

    registers: Count
    stack_bytes: Count
    shared_bytes: Count
    binary_bytes: Count
    instructions: dict[str, Count]


class EvidenceText(_Line):
    """Why the output is held to be right."""

    reference: str
    seeds: tuple[int, ...]
    max_error: Seconds
    rtol: Seconds
    atol: Seconds


class RunRecord(_Line):
    """The start of a run: what was asked for."""

    kind: Literal["run"] = "run"
    version: Literal[1] = VERSION
    run: str
    #: The specification and the options as plain data.
    spec: dict[str, Any]
    options: dict[str, Any]
    device: str
    target: str
    gpu: str
    provenance: Provenance


class TrialRecord(_Line):
    """One attempt: a schedule and what came of it."""

    kind: Literal["trial"] = "trial"
    version: Literal[1] = VERSION
    run: str
    trial: Count
    round: Count
    workload: WorkloadText
    target: str
    gpu: str
    schedule: dict[str, Any]
    #: The program's fingerprint.
    program: str
    rendering_version: Count
    measurement: Annotated[Success | Failing, Field(discriminator="status")]
    facts: FactsText | None
    evidence: EvidenceText | None
    provenance: Provenance

    @property
    def ok(self) -> bool:
        """Whether it was timed, or predicted."""
        return isinstance(self.measurement, Success)

    @property
    def predicted(self) -> bool:
        """Whether the time was made up by a model."""
        return isinstance(self.measurement, Success) and self.measurement.predicted

    @property
    def latency_us(self) -> float | None:
        """The time in microseconds, or None."""
        return self.measurement.timing.latency_us if self.ok else None  # type: ignore[union-attr]

    def measured(self) -> Measurement:
        """Return the measurement as measuring made it."""
        return _measurement(self.measurement, self.facts, self.evidence)


class Entrant(_Line):
    """One entrant of the final comparison: the trial it came from and what it was timed at."""

    trial: Count
    program: str
    #: None where it failed; ``failure`` then says why.
    timing: TimingText | None
    failure: str | None = None
    #: Library time over this one's, paired: median, low, high.
    ratio: tuple[Microseconds, Microseconds, Microseconds] | None = None


class FinalRecord(_Line):
    """The final comparison of a run, interleaved, on fresh data."""

    kind: Literal["final"] = "final"
    version: Literal[1] = VERSION
    run: str
    workload: WorkloadText
    target: str
    gpu: str
    entrants: tuple[Entrant, ...]
    library: TimingText | None
    #: Indices of entrants: the fastest, and all that cannot be told apart from it.
    best: Count | None
    ties: tuple[Count, ...]
    rounds: Count
    seeds: tuple[int, ...]
    predicted: bool = False
    provenance: Provenance


class StopRecord(_Line):
    """The end of a run, and why."""

    kind: Literal["stop"] = "stop"
    version: Literal[1] = VERSION
    run: str
    reason: str
    trials: Count
    provenance: Provenance


Record = Annotated[RunRecord | TrialRecord | FinalRecord | StopRecord, Field(discriminator="kind")]
_RECORDS: TypeAdapter[RunRecord | TrialRecord | FinalRecord | StopRecord] = TypeAdapter(Record)


def from_json(text: bytes) -> RunRecord | TrialRecord | FinalRecord | StopRecord:
    """Read one record; raises ``pydantic.ValidationError``, which is a ValueError."""
    return _RECORDS.validate_json(text)


def to_json(record: RunRecord | TrialRecord | FinalRecord | StopRecord) -> bytes:
    """Return the record as one line of ASCII JSON."""
    text = record.model_dump_json(ensure_ascii=True)
    return text.encode("ascii")


def status_of(measurement: Measurement) -> Success | Failing:
    """Return the part of a measurement that says how it went."""
    if isinstance(measurement, Failed):
        return Failing(
            kind=measurement.kind.value,
            detail=measurement.detail,
            build_s=measurement.build_s,
            run_s=measurement.run_s,
        )
    return Success(
        timing=TimingText.of(measurement.timing),
        predicted=measurement.predicted,
        build_s=measurement.build_s,
        run_s=measurement.run_s,
    )


def facts_of(measurement: Measurement) -> FactsText | None:
    """Return the compiled facts of a measurement, if it has any."""
    facts = measurement.facts
    if facts is None:
        return None
    return FactsText(
        registers=facts.registers,
        stack_bytes=facts.stack_bytes,
        shared_bytes=facts.shared_bytes,
        binary_bytes=facts.binary_bytes,
        instructions=dict(facts.instructions),
    )


def evidence_of(measurement: Measurement) -> EvidenceText | None:
    """Return the evidence of a measurement, if it has any."""
    evidence = measurement.evidence if isinstance(measurement, Timed) else None
    if evidence is None:
        return None
    return EvidenceText(
        reference=evidence.reference,
        seeds=evidence.seeds,
        max_error=evidence.max_error,
        rtol=evidence.rtol,
        atol=evidence.atol,
    )


def _measurement(
    status: Success | Failing, facts: FactsText | None, evidence: EvidenceText | None
) -> Measurement:
    compiled = None if facts is None else CompiledFacts(**facts.model_dump())
    if isinstance(status, Failing):
        kind = Failure(status.kind)
        return Failed(kind, status.detail, compiled, status.build_s, status.run_s)
    proof = None if evidence is None else Evidence(**evidence.model_dump())
    timing = status.timing.timing()
    return Timed(timing, compiled, proof, status.build_s, status.run_s, status.predicted)
