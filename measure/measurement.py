"""What came of building, verifying and timing one program: a value, never an exception.

Knows nothing of schedules, and of no device in particular.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Failure(StrEnum):
    """Kinds of failure, in the words of the T4 autotuning format."""

    TIMEOUT = "timeout"
    COMPILE = "compile"
    RUNTIME = "runtime"
    CORRECTNESS = "correctness"
    CONSTRAINTS = "constraints"


class Cause(StrEnum):
    """What exactly went wrong, finer than ``Failure``: of those failures that have a name."""

    UNNAMED = ""
    BUILD_DEADLINE = "build deadline"
    RUN_DEADLINE = "run deadline"
    REFUSED = "refused by the compiler"
    #: The process died of a signal, left by itself, or sent what is no message.
    DIED = "process died"
    EXITED = "process exited"
    GARBAGE = "garbage sent"
    #: An error of the device that takes its context along, or one that it survives.
    DEVICE_LOST = "device context lost"
    RAISED = "raised"
    OUT_OF_MEMORY = "out of device memory"
    OUT_OF_RESOURCES = "out of resources"
    BAD_ARGUMENT = "bad argument"
    NOT_WRITTEN = "output not written"
    NOT_A_NUMBER = "NaN written"
    OFF = "beyond the tolerance"
    OVERRUN = "wrote outside its output"
    INPUT_CHANGED = "changed its inputs"
    #: Right before timing, wrong after.
    LATER = "wrong later"
    IMPOSSIBLE = "impossible time"


@dataclass(frozen=True, slots=True)
class CompiledFacts:
    """What the compiled kernels of a program use; the largest over its kernels, sums for counts.

    ``instructions`` counts SASS opcodes of interest by name: HGMMA, HMMA, UTMALDG, LDGSTS, LDG,
    STG, LDS, STS, BAR. Empty where no disassembler runs (a target that is not CUDA).
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    binary_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    """GPU time of one run in microseconds: the median of ``samples_us`` and its interval.

    The interval is the 95 % confidence interval of the median (order statistics).
    """

    latency_us: float
    low_us: float
    high_us: float
    samples_us: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why an output is held to be right: against which reference, how far off, on which data.

    ``max_error`` is the largest ``|out - ref| / (atol + rtol * |ref|)`` over all checks, so 1.0
    is the tolerance itself. ``constant`` names the inputs that were prepared before the part that
    was timed.
    """

    reference: str
    seeds: tuple[int, ...]
    max_error: float
    rtol: float
    atol: float
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the device was like while a time was taken.

    ``sm_clock_mhz`` is the clock after the last sample, 0 where the driver does not say. ``drift``
    is the anchor's time at its last reading over its least of the session, so 1.0 is a device as
    fast as ever; 0 before the first reading. ``retakes`` counts samples thrown away. ``trouble``
    is what was still wrong at the last: the time is then quarantined.
    """

    sm_clock_mhz: int = 0
    drift: float = 0.0
    retakes: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """A program that built, matched the reference and ran.

    ``predicted`` marks a time that a model made up: such a record is never served as tuned.
    ``conditions`` are None where nothing watched the device.
    """

    timing: Timing
    facts: CompiledFacts | None
    evidence: Evidence | None
    build_s: float
    run_s: float
    predicted: bool = False
    conditions: Conditions | None = None

    @property
    def quarantined(self) -> bool:
        """Whether the device was disturbed: such a time yields to any that is not."""
        return self.conditions is not None and bool(self.conditions.trouble)

    @property
    def latency_us(self) -> float:
        """The median time of one run, in microseconds."""
        return self.timing.latency_us


@dataclass(frozen=True, slots=True)
class Failed:
    """A program that did not get as far as a time. ``detail`` is one sentence for people."""

    kind: Failure
    detail: str
    facts: CompiledFacts | None = None
    build_s: float = 0.0
    run_s: float = 0.0
    cause: Cause = Cause.UNNAMED


Measurement = Timed | Failed
