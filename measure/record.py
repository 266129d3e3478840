"""The lines of a log as typed values, and how measurements become them. Knows no file.

Everything that is read is checked here: types, bounds, finite numbers, and no unknown field. A
schedule stays plain data; whoever replays it checks it against the steps.

Version 2 added a trial's ``conditions``, a failure's ``cause``, what a run's proposals depend on,
and the kinds "resume" and "round". Lines of version 1 are read as what they are: nothing watched
the device, the cause has no name, and the run cannot be resumed. Version 3 added the ``constant``
inputs of evidence; before, there were none. Version 4 added the kind "suite".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from measure.measurement import (
    Cause,
    CompiledFacts,
    Conditions,
    Evidence,
    Failed,
    Failure,
    Measurement,
    Timed,
    Timing,
)

#: The version of the form that this module writes; it reads every one up to it.
VERSION: Literal[4] = 4
Version = Literal[1, 2, 3, 4]
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


class ConditionsText(_Line):
    """What the device was like while a time was taken; see ``measurement.Conditions``."""

    sm_clock_mhz: Count
    drift: Annotated[float, Field(ge=0)]
    retakes: Count
    trouble: str

    @staticmethod
    def of(conditions: Conditions) -> ConditionsText:
        """Take conditions over."""
        return ConditionsText(
            sm_clock_mhz=conditions.sm_clock_mhz,
            drift=conditions.drift,
            retakes=conditions.retakes,
            trouble=conditions.trouble,
        )


class Success(_Line):
    """A program that built, matched the reference and ran."""

    status: Literal["ok"] = "ok"
    timing: TimingText
    predicted: bool
    build_s: Seconds
    run_s: Seconds
    conditions: ConditionsText | None = None


class Failing(_Line):
    """A program that did not get as far as a time."""

    status: Literal["failed"] = "failed"
    kind: Literal["timeout", "compile", "runtime", "correctness", "constraints"]
    detail: str
    build_s: Seconds
    run_s: Seconds
    cause: Cause = Cause.UNNAMED


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
    #: Inputs that were prepared once, before the part that was timed.
    constant: tuple[str, ...] = ()


class RunRecord(_Line):
    """The start of a run: what was asked for."""

    kind: Literal["run"] = "run"
    version: Version = VERSION
    run: str
    #: The specification and the options as plain data.
    spec: dict[str, Any]
    options: dict[str, Any]
    device: str
    target: str
    gpu: str
    workload: WorkloadText | None = None
    #: All that its proposals depend on beside outcomes, as plain data.
    identity: dict[str, Any] = Field(default_factory=dict)
    provenance: Provenance


class ResumeRecord(_Line):
    """A run goes on: with which options, after how many recorded trials."""

    kind: Literal["resume"] = "resume"
    version: Version = VERSION
    run: str
    options: dict[str, Any]
    trials: Count
    provenance: Provenance


class RoundRecord(_Line):
    """Trials of a batch were handed to builders and device."""

    kind: Literal["round"] = "round"
    version: Version = VERSION
    run: str
    round: Count
    trials: tuple[Count, ...]
    #: The time that none of them is measured to the end above; None where there was no such time.
    abort_above_us: Microseconds | None
    provenance: Provenance


class TrialRecord(_Line):
    """One attempt: a schedule and what came of it."""

    kind: Literal["trial"] = "trial"
    version: Version = VERSION
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
    def quarantined(self) -> bool:
        """Whether the device was disturbed while it was timed."""
        status = self.measurement
        return isinstance(status, Success) and bool(status.conditions and status.conditions.trouble)

    @property
    def latency_us(self) -> float | None:
        """The time in microseconds, or None."""
        return self.measurement.timing.latency_us if self.ok else None  # type: ignore[union-attr]

    def measured(self) -> Measurement:
        """Return the measurement as measuring made it."""
        return measurement_of(self.measurement, self.facts, self.evidence)


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
    version: Version = VERSION
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
    #: What disturbed the device in rounds that could not be held again; "" if nothing did.
    trouble: str = ""
    provenance: Provenance


class StopRecord(_Line):
    """The end of a run, and why."""

    kind: Literal["stop"] = "stop"
    version: Version = VERSION
    run: str
    reason: str
    trials: Count
    provenance: Provenance


class SuiteRecord(_Line):
    """Several runs begin, or go on, under one budget, and take turns from here on.

    Whose turn it was is the order in which their "round" lines follow.
    """

    kind: Literal["suite"] = "suite"
    version: Version = VERSION
    #: What this record is called; the runs are those of ``runs``, some of which may never begin.
    run: str
    runs: tuple[str, ...]
    weights: tuple[Annotated[float, Field(gt=0)], ...]
    scheduler: str
    #: What its choices depend on beside tasks and outcomes, as plain data.
    settings: dict[str, Any]
    #: Bounds on attempts of all runs together and on seconds from here on, where there are any.
    total_trials: Count | None
    budget_s: Annotated[float, Field(gt=0)] | None
    provenance: Provenance


AnyRecord = (
    RunRecord | ResumeRecord | RoundRecord | TrialRecord | FinalRecord | StopRecord | SuiteRecord
)
_RECORDS: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="kind")])


def from_json(text: bytes) -> AnyRecord:
    """Read one record; raises ``pydantic.ValidationError``, which is a ValueError."""
    return _RECORDS.validate_json(text)


def to_json(record: AnyRecord) -> bytes:
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
            cause=measurement.cause,
        )
    conditions = measurement.conditions
    return Success(
        timing=TimingText.of(measurement.timing),
        predicted=measurement.predicted,
        build_s=measurement.build_s,
        run_s=measurement.run_s,
        conditions=ConditionsText.of(conditions) if conditions else None,
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
        constant=evidence.constant,
    )


def measurement_of(
    status: Success | Failing, facts: FactsText | None, evidence: EvidenceText | None
) -> Measurement:
    """Return the measurement that the three parts of a record are of."""
    compiled = None if facts is None else CompiledFacts(**facts.model_dump())
    if isinstance(status, Failing):
        kind = Failure(status.kind)
        return Failed(kind, status.detail, compiled, status.build_s, status.run_s, status.cause)
    proof = None if evidence is None else Evidence(**evidence.model_dump())
    seen = None if status.conditions is None else Conditions(**status.conditions.model_dump())
    return Timed(
        status.timing.timing(),
        compiled,
        proof,
        status.build_s,
        status.run_s,
        status.predicted,
        seen,
    )
