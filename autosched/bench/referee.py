"""Hold interleaved comparisons in a child process on a GPU. Knows no schedule and no log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autosched.bench.contest import Contest, Outcome
from autosched.bench.row import Interval
from measure.child import Child, Lost
from measure.closing import Closing
from measure.comparison import paired_ratio
from measure.gpu_lock import GpuLock
from measure.service import NoDevice, Patience
from measure.timing import median_interval

#: How many sets of fresh random data the rounds of a comparison are spread over.
DATA_SETS = 3
#: Further seeds on which programs are held to the reference and not timed.
VERIFY_SEEDS = 5
#: Where the seeds of comparisons start, far from those that tuning verifies and times with.
FRESH = 1 << 20
#: Longest silence: torch's compiler tunes for minutes on large workloads.
TIMEOUT_S = 600.0


class GpuReferee(Closing):
    """Compares on one GPU. A context manager; the child starts with the first comparison.

    Between comparisons the child holds no data, and leaves the GPU to others; while it compares
    the GPU's lock is held, as by whoever tunes. Tuners of this process share it. An entrant that
    kills the child or never ends is taken out, and the others start again.
    """

    def __init__(
        self,
        device: str = "cuda:0",
        timeout_s: float = TIMEOUT_S,
        module: str = "autosched.bench.worker",
        patience: Patience = Patience(),  # noqa: B008  frozen
    ) -> None:
        self._patience = patience
        #: The GPU's UUID, once the child has been asked; "" where there is no GPU to lock.
        self._uuid: str | None = None
        self._device = device
        self._timeout_s = timeout_s
        self._module = module
        self._child: Child | None = None

    def start(self) -> None:
        """Start the child now, so that it loads what it needs while others work."""
        if self._child is None:
            self._child = Child(self._module)

    def __call__(self, contest: Contest) -> Outcome:
        """Hold one comparison. Raises GpuBusy where another process does not leave the GPU in time,
        and NoDevice where the child cannot say which GPU it has."""
        with self._locked():
            return self._compare(contest)

    def _compare(self, contest: Contest) -> Outcome:
        lost: dict[str, str] = {}
        careful = False
        entrants = (*contest.programs, *contest.libraries)
        for _ in range(len(entrants) + 2):
            reply = self._ask(_request(contest, self._device, lost, careful))
            broken = _broken(reply)
            if broken is None:
                return outcome(contest, reply, lost)
            self.close()
            name, detail = broken
            if name in entrants and name not in lost:
                lost[name] = detail
            elif careful:
                return Outcome(failures=dict.fromkeys(entrants, detail) | lost)
            careful = True
        return Outcome(failures=lost)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._uuid is None:
            reply = self._ask({"identify": self._device})
            if isinstance(reply, Lost):
                self.close()
                raise NoDevice(f"{self._device}: {reply.detail}")
            self._uuid = str(reply["uuid"])
        if not self._uuid:
            yield
            return
        lock = GpuLock(self._uuid)
        lock.acquire(self._patience)
        try:
            yield
        finally:
            lock.release()

    def _ask(self, request: Mapping[str, Any]) -> Any:
        self.start()
        assert self._child is not None  # noqa: S101  just started
        return self._child.ask(request, self._timeout_s)

    def close(self) -> None:
        """End the child. May be called again."""
        if self._child is not None:
            self._child.close()
            self._child = None


def _broken(reply: Any) -> tuple[str, str] | None:
    """Return whose turn it was when the child or its device broke, and how; None if none did."""
    if isinstance(reply, Lost):
        return reply.note, reply.detail
    return (reply["broken"], reply["detail"]) if "broken" in reply else None


def _request(
    contest: Contest, device: str, lost: Mapping[str, str], careful: bool
) -> dict[str, Any]:
    programs = {name: p for name, p in contest.programs.items() if name not in lost}
    return {
        "workload": contest.workload,
        "names": list(programs),
        "programs": list(programs.values()),
        "libraries": [name for name in contest.libraries if name not in lost],
        "rounds": contest.rounds,
        "seeds": [FRESH + contest.seed + n for n in range(DATA_SETS)],
        "verify": [FRESH + contest.seed + DATA_SETS + n for n in range(VERIFY_SEEDS)],
        "device": device,
        "careful": careful,
    }


def outcome(contest: Contest, reply: Mapping[str, Any], lost: Mapping[str, str]) -> Outcome:
    """Turn times by entrant and round into medians and paired ratios to the yardstick."""
    times = {name: rounds for name, rounds in reply["times_us"].items() if rounds}
    yardstick = times.get(contest.yardstick or "")
    return Outcome(
        times_us={name: Interval(*median_interval(rounds)) for name, rounds in times.items()},
        ratios=_ratios(times, yardstick) if yardstick else {},
        rel_err=dict(reply["rel_err"]),
        host_us=dict(reply["host_us"]),
        setup_s=dict(reply["setup_s"]),
        failures=dict(lost) | dict(reply["failures"]),
        verified_seeds=dict(reply.get("verified_seeds", {})),
        max_error=dict(reply.get("max_error", {})),
        forms=dict(reply.get("forms", {})),
        refused=dict(reply.get("refused", {})),
    )


def _ratios(times: Mapping[str, Any], yardstick: Any) -> dict[str, Interval]:
    ratios = {}
    for name, rounds in times.items():
        # An entrant that fell out between data sets has fewer rounds: the first ones pair.
        shared = min(len(rounds), len(yardstick))
        ratio = paired_ratio(rounds[:shared], yardstick[:shared])
        ratios[name] = Interval(ratio.median, ratio.low, ratio.high)
    return ratios
