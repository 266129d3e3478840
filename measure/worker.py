"""The child process that owns a device: makes data, verifies and times programs.

Knows no schedule. On the CPU it runs Triton's interpreter and only verifies. An error that the
device does not recover from is reported as Broken, and the parent starts another worker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch
import triton
from triton.runtime.errors import OutOfResources

from measure import verify
from measure.build_worker import captured, explain
from measure.floor import least_us
from measure.gpu_timer import GpuTimer, HostTooSlow
from measure.job import Broken, Compare, Measure, Open, Opened, Rounds, Verify
from measure.launch import BadArgument, Call, Launcher
from measure.library import library_call
from measure.measurement import Evidence, Failed, Failure, Timed
from measure.nvml import driver_version
from measure.output import GuardedOutput, poison
from measure.timing import Plan, summarise
from search_space.program import Program

#: How many samples decide that a program is too slow to be worth timing well.
QUICK = 3
#: The library rounds after every operation of an epilogue; its outputs are held to this many
#: tolerances.
LIBRARY_TOLERANCES = 16.0
_Note = Callable[[str], None]


class WrongResult(Exception):
    """An output that is not the reference's; the message says on which data and how far off."""


class Session:
    """A device, a workload and its data: what every request after Open works with."""

    def __init__(self, request: Open) -> None:
        self.workload = request.workload
        self.target = request.target
        self.seeds = request.seeds
        self.device = torch.device(request.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        torch.set_float32_matmul_precision("highest")
        self.output = GuardedOutput(self.workload.output, self.device)
        self.refresh()
        self.timer = GpuTimer(_l2_bytes(self.device)) if self.device.type == "cuda" else None

    def refresh(self) -> None:
        """Make the data anew. The first seed's case is last: it is the one that is timed."""
        seeds = self.seeds[::-1]
        self.cases = (
            verify.edge_case(self.workload, self.seeds[0], self.device),
            *(verify.random_case(self.workload, seed, self.device) for seed in seeds),
        )

    def opened(self) -> Opened:
        """Say what this session runs on."""
        cuda = self.device.type == "cuda"
        return Opened(
            torch.cuda.get_device_name(self.device) if cuda else "",
            driver_version() if cuda else "",
            torch.__version__,
            triton.__version__,
            _l2_bytes(self.device),
        )

    def verify(self, program: Program) -> Evidence | Failed:
        """Run a program on every case and hold its outputs to the reference."""
        launcher = Launcher(program, self.device)
        evidence, _ = self._verified(launcher)
        return evidence

    def measure(self, program: Program, abort_above_us: float | None) -> Timed | Failed:
        """Verify, time and verify again."""
        begun = time.monotonic()
        launcher = Launcher(program, self.device)
        evidence, call = self._verified(launcher)
        samples_us = self._samples(call, abort_above_us)
        error = self._still_right(call)
        timing = summarise(samples_us)
        self._check_possible(timing.latency_us)
        evidence = replace(evidence, max_error=max(evidence.max_error, error))
        return Timed(timing, None, evidence, 0.0, time.monotonic() - begun)

    def _verified(self, launcher: Launcher) -> tuple[Evidence, Call]:
        """Return the evidence and the call on the last case; raises WrongResult."""
        found = []
        for case in self.cases:
            call = launcher.prepare(case.inputs, self.output.tensor)
            found.append(self._run_and_judge(case, call))
        worst = self._conclude(self.cases, found)
        rtol = max(case.tolerance.rtol for case in self.cases)
        atol = max(case.tolerance.atol for case in self.cases)
        reference = f"{self.cases[-1].reference}, and small integers"
        return Evidence(reference, self.seeds, worst, rtol, atol), call

    def _run_and_judge(self, case: verify.Case, call: Call) -> torch.Tensor:
        """Queue a run into a poisoned output and its judgement: error, overrun, input changed."""
        self.output.poison()
        poison(call.workspaces)
        call.run()
        return self._judged(case)

    def _judged(self, case: verify.Case) -> torch.Tensor:
        error = verify.worst_error(case, self.output.tensor).to(torch.float64)
        flags = (self.output.overrun(), verify.inputs_changed(case))
        return torch.stack([error, *(flag.to(torch.float64) for flag in flags)])

    def _conclude(self, cases: Sequence[verify.Case], found: Sequence[torch.Tensor]) -> float:
        """Wait for judgements and return the largest error; raises WrongResult."""
        rows = torch.stack(list(found)).tolist()
        for case, (error, overrun, changed) in zip(cases, rows, strict=True):
            if changed:
                self.refresh()
                raise WrongResult(f"{case.name}: the program changed its inputs")
            if overrun:
                raise WrongResult(f"{case.name}: the program wrote outside its output")
            if error != error:
                raise WrongResult(f"{case.name}: elements are NaN or were never written")
            if error > 1:
                raise WrongResult(f"{case.name}: off by {error:.3g} times the tolerance")
        return max((row[0] for row in rows), default=0.0)

    def _samples(self, call: Call, abort_above_us: float | None) -> list[float]:
        if self.timer is None:
            raise BadArgument("device: only a GPU is timed")
        samples = self.timer.samples_us(call.run, QUICK)
        if abort_above_us is not None and median(samples) > abort_above_us:
            return samples
        plan = Plan()
        while count := plan.more(samples):
            samples += self.timer.samples_us(call.run, count)
        return samples

    def _still_right(self, call: Call) -> float:
        """Judge the output of the last timed run, and of one more run into a poisoned output."""
        case = self.cases[-1]
        found = [self._judged(case), self._run_and_judge(case, call)]
        try:
            return self._conclude([case, case], found)
        except WrongResult as error:
            raise WrongResult(f"after timing, {error}") from error

    def _check_possible(self, latency_us: float) -> None:
        """Raise WrongResult on a time that the data sheet of this very device rules out."""
        if self.target is None or not _is_device(self.target.device_names, self.device):
            return
        least = least_us(self.workload, self.target)
        if latency_us < least:
            raise WrongResult(
                f"impossible time: {latency_us:.3g} us, the data sheet permits {least:.3g} us"
            )


class Contest:
    """One comparison: entrants by index, the library last."""

    def __init__(self, session: Session, request: Compare, note: _Note) -> None:
        self._session = session
        self._request = request
        self._note = note
        #: The index of the entrant that is on, or "" where several are queued at once.
        self.turn = ""
        self._failures: dict[int, Failed] = {}
        self._launchers: dict[int, Launcher] = {}
        self._library = library_call(session.workload) if request.library else None
        count = len(request.programs) + request.library
        self._times: list[list[float]] = [[] for _ in range(count)]

    def run(self) -> Rounds:
        """Return the times of every entrant, round by round, and why entrants failed."""
        for index in range(len(self._request.programs)):
            self._guarded(index, partial(self._load, index))
        library = len(self._request.programs)
        if self._request.library and self._library is None:
            detail = "the library has no single call for this computation"
            self._failures[library] = Failed(Failure.CONSTRAINTS, detail)
        seeds = self._request.seeds
        for turn, seed in enumerate(seeds):
            share = self._request.rounds * (turn + 1) // len(seeds)
            self._on_fresh_data(seed, share - self._request.rounds * turn // len(seeds))
        rows = tuple(
            () if index in self._failures else tuple(row) for index, row in enumerate(self._times)
        )
        return Rounds(rows, tuple(sorted(self._failures.items())))

    def _load(self, index: int) -> None:
        program = self._request.programs[index]
        self._launchers[index] = Launcher(program, self._session.device)

    def _on_fresh_data(self, seed: int, rounds: int) -> None:
        session = self._session
        case = verify.random_case(session.workload, seed, session.device)
        pieces: dict[int, Callable[[], None]] = {}
        for index in range(len(self._times)):
            if index not in self._failures:
                self._guarded(index, partial(self._admit, index, case, pieces))
        self._say("")
        order = random.Random(seed)
        for _ in range(rounds):
            turns = sorted(index for index in pieces if index not in self._failures)
            order.shuffle(turns)
            self._round(turns, pieces)
        for index in pieces:
            self._guarded(index, partial(self._judge, index, case, pieces[index]))

    def _admit(self, index: int, case: verify.Case, pieces: dict[int, Callable[[], None]]) -> None:
        """Bind an entrant to the data, and let it in if its result is right."""
        if index in self._launchers:
            call = self._launchers[index].prepare(case.inputs, self._session.output.tensor)
            poison(call.workspaces)
            piece = call.run
        else:
            piece = self._library_piece(case)
        self._judge(index, case, piece)
        pieces[index] = piece

    def _library_piece(self, case: verify.Case) -> Callable[[], None]:
        library, output = self._library, self._session.output.tensor
        assert library is not None  # noqa: S101  entrants without a launcher are the library
        return lambda: library(case.inputs, output)

    def _judge(self, index: int, case: verify.Case, piece: Callable[[], None]) -> None:
        session = self._session
        session.output.poison()
        piece()
        judged = session._judged(case)
        if index not in self._launchers:
            judged[0] /= LIBRARY_TOLERANCES
        session._conclude([case], [judged])

    def _round(self, turns: Sequence[int], pieces: dict[int, Callable[[], None]]) -> None:
        """Time every entrant once; a round in which the host was late is held again."""
        timer = self._session.timer
        if timer is None:
            raise BadArgument("device: only a GPU is timed")
        for _ in range(10):
            times_us: list[float | None]
            if self._request.careful:
                times_us = []
                for index in turns:
                    self._say(str(index))
                    times_us += timer.batch_us([pieces[index]])
            else:
                times_us = timer.batch_us([pieces[index] for index in turns])
            if None not in times_us:
                for index, value in zip(turns, times_us, strict=True):
                    self._times[index].append(float(value or 0.0))
                return
        raise HostTooSlow("no round of a comparison was free of waiting for the host")

    def _guarded(self, index: int, action: Callable[[], None]) -> None:
        """Do something that only this entrant can fail at; the note names it, should we die."""
        self._say(str(index))
        try:
            action()
        except Exception as error:
            if not _healthy(self._session.device):
                raise
            self._failures[index] = failure_of(error)

    def _say(self, turn: str) -> None:
        self.turn = turn
        self._note(turn)


def failure_of(error: BaseException) -> Failed:
    """Turn what a program raised into a failure with its kind."""
    match error:
        case WrongResult():
            return Failed(Failure.CORRECTNESS, str(error))
        case OutOfResources() | BadArgument():
            return Failed(Failure.CONSTRAINTS, explain(error, ""))
        case torch.OutOfMemoryError():
            torch.cuda.empty_cache()
            return Failed(Failure.RUNTIME, "out of device memory")
        case SyntaxError() | triton.CompilationError():
            return Failed(Failure.COMPILE, explain(error, captured()))
        case _:
            return Failed(Failure.RUNTIME, explain(error, captured()))


def _healthy(device: torch.device) -> bool:
    """Whether the device still works after an error."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
    except Exception:  # noqa: BLE001  any error here means the context is lost
        return False
    return True


def _l2_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def _is_device(names: Sequence[str], device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_name(device) in names


_sessions: dict[str, Session] = {}


def handle(request: Open | Verify | Measure | Compare, note: _Note) -> Any:
    """Answer one request: Opened, Evidence, Timed, Rounds, Failed, or Broken."""
    if isinstance(request, Open):
        _sessions.clear()
        _sessions[""] = Session(request)
        return _sessions[""].opened()
    session = _sessions[""]
    contest = Contest(session, request, note) if isinstance(request, Compare) else None
    try:
        if contest:
            return contest.run()
        if isinstance(request, Verify):
            return session.verify(request.program)
        return session.measure(request.program, request.abort_above_us)
    except Exception as error:  # noqa: BLE001  a program may make anything fail
        failed = failure_of(error)
        if _healthy(session.device):
            return failed
        return Broken(failed, contest.turn if contest else "")
