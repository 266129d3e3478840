"""What processes ask of one another: requests and replies, as frozen values.

Data only: knows neither who asks nor how a message travels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from measure.measurement import CompiledFacts, Failed
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: Backend, architecture and warp size, as Triton's GPUTarget takes them.
TritonTarget = tuple[str, int | str, int]


@dataclass(frozen=True, slots=True)
class Built:
    """A program that compiled: what its kernels use, and how long the compiler took."""

    facts: CompiledFacts
    build_s: float
    #: The program's fingerprint.
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Build:
    """Ask a build worker to compile every kernel of a program into Triton's cache."""

    program: Program
    triton_target: TritonTarget


@dataclass(frozen=True, slots=True)
class CompileText:
    """Ask a build worker for the text of every compiler level of every kernel."""

    program: Program
    triton_target: TritonTarget


@dataclass(frozen=True, slots=True)
class Identify:
    """Ask a measuring worker which device goes by a name here, before any work is done on it."""

    device: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The device's UUID as the driver spells it, "" for a device that has none."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Disagreed:
    """Two references disagree about a workload; the text names both."""

    text: str


@dataclass(frozen=True, slots=True)
class Open:
    """Ask a measuring worker to take a device and make the data of a workload.

    ``seeds`` of random inputs; the edge input of small integers always comes on top.
    """

    workload: Workload
    target: Target | None
    device: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """What a measuring worker runs on."""

    gpu_name: str
    driver: str
    torch: str
    triton: str
    #: The bytes of the L2 cache, as the device reports them; 0 where it does not say.
    l2_bytes: int
    #: What opening took, in seconds by step.
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """Ask a measuring worker to forget its workload and free the memory of its data."""


@dataclass(frozen=True, slots=True)
class Released:
    """A measuring worker holds no workload; another may be opened."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask for the evidence that a program is right, without a time."""

    program: Program


@dataclass(frozen=True, slots=True)
class Measure:
    """Ask to verify and time one program; give up early above ``abort_above_us``."""

    program: Program
    abort_above_us: float | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """Ask to time programs in turns, ``rounds`` times, on fresh data for each of ``seeds``.

    ``library`` adds the library's own kernel as an entrant. ``careful`` waits for the device
    after every entrant and says in a note whose turn it is, so that a crash has a name.
    """

    programs: tuple[Program, ...]
    library: bool
    rounds: int
    seeds: tuple[int, ...]
    careful: bool = False


@dataclass(frozen=True, slots=True)
class Rounds:
    """The times of a comparison in microseconds, one row an entrant, one column a round.

    The library is the last row when asked for. A row is empty where the entrant failed, and
    ``failures`` says why, by index.
    """

    times_us: tuple[tuple[float, ...], ...]
    failures: tuple[tuple[int, Failed], ...]
    #: What disturbed the device in rounds that could not be held again; "" if nothing did.
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """A failure that took the device's context with it: the worker must be replaced.

    ``turn`` is the index of the entrant that was on, in a comparison where that is known.
    """

    failed: Failed
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A word from a worker before its reply: how far it has come."""

    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of ours in a worker: the traceback, for a bug report."""

    text: str


@dataclass(frozen=True, slots=True)
class Texts:
    """The compiler's levels by kernel name and level: ttir, ttgir, llir, ptx, sass."""

    kernels: Mapping[str, Mapping[str, str]]


TYPES = (
    Built,
    Build,
    CompileText,
    Identify,
    Identity,
    Disagreed,
    Open,
    Opened,
    Release,
    Released,
    Verify,
    Measure,
    Compare,
    Rounds,
    Broken,
    Note,
    Fault,
    Texts,
)
