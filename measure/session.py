"""A device, a workload and its data: verify a program, time it, verify it again.

Knows no schedule and nothing of processes. On the CPU, in Triton's interpreter, it only verifies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median

import torch
import triton
from triton.runtime.errors import OutOfResources

from measure import verify
from measure.anchor import Anchor, expected_us
from measure.build_worker import captured, explain
from measure.floor import least_us
from measure.gpu_timer import GpuTimer
from measure.guard import Guard
from measure.job import Open, Opened
from measure.launch import BadArgument, Call, Launcher
from measure.measurement import Cause, Evidence, Timed
from measure.nvml import GpuWatch, driver_version, own_ids
from measure.output import GuardedOutput, poison
from measure.slot import Slots
from measure.timing import Plan, summarise
from search_space.program import Program

#: How many samples decide that a program is too slow to be worth timing well.
QUICK = 3


class WrongResult(Exception):
    """An output that is not the reference's; the message says on which data and how far off."""

    def __init__(self, cause: Cause, message: str, case: verify.Case | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.case = case


class NoGpu(Exception):
    """A CUDA device that torch does not find; the message says which are there."""


class DoesNotCompile(Exception):
    """A program that the compiler or the driver refuses; the message is one line."""


class Session:
    """A device, a workload and its data: what every request after Open works with.

    ``ours`` are the ids by which the driver knows this process, where an earlier session of it
    has found them out. ``beside`` is another session on the same device, whose timer and guard
    serve both. Raises NoGpu, and second_opinion.Disagreement.
    """

    def __init__(
        self,
        request: Open,
        ours: frozenset[int] = frozenset(),
        beside: Session | None = None,
    ) -> None:
        begun = time.monotonic()
        self.workload = request.workload
        self.target = request.target
        self.seeds = request.seeds
        self.device = usable(torch.device(request.device))
        torch.set_float32_matmul_precision("highest")
        alone = beside is None or beside.device != self.device
        cuda = self.device.type == "cuda"
        watch = GpuWatch(uuid_of(self.device)) if cuda and alone else None
        others = watch.processes() if watch else frozenset[int]()
        self.ours = ours
        if cuda:
            torch.cuda.set_device(self.device)
        self.output = GuardedOutput(self.workload.output, self.device)
        placed = time.monotonic()
        #: The first seed's case is last: it is the one that is timed.
        self.cases = self._cases()
        self.slots = Slots(self.cases[-1].inputs)
        filled = time.monotonic()
        if beside is None or alone:
            self._timer = GpuTimer(_l2_bytes(self.device)) if cuda else None
            self.guard = self._guard(watch, others)
        else:
            self._timer, self.guard = beside._timer, beside.guard
        ready = time.monotonic()
        self._seconds = {"device": placed - begun, "data": filled - placed, "timer": ready - filled}

    def _cases(self) -> tuple[verify.Case, ...]:
        first, *others = self.seeds
        cases = (
            verify.edge_case(self.workload, first, self.device),
            *(verify.random_case(self.workload, seed, self.device) for seed in others[::-1]),
            verify.random_case(self.workload, first, self.device, doubted=True),
        )
        if self.device.type == "cuda":
            # Programs need the memory that the reference took.
            torch.cuda.empty_cache()
        return cases

    def _guard(self, watch: GpuWatch | None, others: frozenset[int]) -> Guard:
        """Return what watches the device. ``others`` were there before this process was."""
        if watch is None or self._timer is None:
            return Guard(None)
        here = self.target is not None and _is_device(self.target.device_names, self.device)
        # Of a process that has worked on the device before, nothing new is seen there.
        self.ours = self.ours or own_ids(watch.processes(), others)
        return Guard(
            watch,
            Anchor(self._timer).reading_us,
            ours=self.ours,
            expected_us=expected_us(self.target) if here and self.target else None,
        )

    @cached_property
    def opened(self) -> Opened:
        """What this session runs on."""
        cuda = self.device.type == "cuda"
        return Opened(
            torch.cuda.get_device_name(self.device) if cuda else "",
            driver_version() if cuda else "",
            torch.__version__,
            triton.__version__,
            _l2_bytes(self.device),
            self._seconds,
        )

    @property
    def held_bytes(self) -> int:
        """The bytes that the data of the workload take."""
        cases = [(*case.inputs, case.expected, case.allowed) for case in self.cases]
        held = [*self.slots.tensors, self.output.tensor, *(t for case in cases for t in case)]
        return sum(tensor.untyped_storage().nbytes() for tensor in held)

    @property
    def timer(self) -> GpuTimer:
        """What times on this device; raises BadArgument where there is none."""
        if self._timer is None:
            raise BadArgument("device: only a GPU is timed")
        return self._timer

    def check(self, program: Program) -> Evidence:
        """Run a program on every case and hold its outputs to the reference."""
        evidence, _ = self._verified(self.load(program))
        return evidence

    def measure(self, program: Program, abort_above_us: float | None) -> Timed:
        """Verify, time and verify again. Preparations run once, before the part that is timed."""
        begun = time.monotonic()
        evidence, call = self._verified(self.load(program))
        call.prepare()
        samples_us, conditions = self.guard.watch(lambda: self._samples(call, abort_above_us))
        error = self._still_right(call)
        timing = summarise(samples_us)
        self._check_possible(timing.latency_us)
        evidence = replace(evidence, max_error=max(evidence.max_error, error))
        run_s = time.monotonic() - begun
        return Timed(timing, None, evidence, 0.0, run_s, conditions=conditions)

    def load(self, program: Program) -> Launcher:
        """Compile a program and put it on the device; raises DoesNotCompile."""
        try:
            return Launcher(program, self.device)
        except (OutOfResources, BadArgument):
            raise
        except Exception as error:
            raise DoesNotCompile(explain(error, captured())) from error

    def _verified(self, launcher: Launcher) -> tuple[Evidence, Call]:
        """Return the evidence and the call, the last case in its slots; raises WrongResult.

        Workspaces are poisoned once, so that both a kernel that reads what nobody wrote and one
        that goes on from an earlier case are seen.
        """
        call = launcher.prepare(self.slots.tensors, self.output.tensor)
        poison(call.workspaces)
        found = [self._run_and_judge(case, call) for case in self.cases]
        try:
            worst = self.conclude(self.cases, found)
        except WrongResult as wrong:
            raise self._sharpened(wrong, call) from None
        rtol = max(case.tolerance.rtol for case in self.cases)
        atol = max(case.tolerance.atol for case in self.cases)
        reference = f"{self.cases[-1].reference}, and small integers"
        constant = launcher.program.prepared
        return Evidence(reference, self.seeds, worst, rtol, atol, constant), call

    def _run_and_judge(self, case: verify.Case, call: Call) -> torch.Tensor:
        """Queue a run on a case into a poisoned output and its judgement."""
        self.slots.load(case.inputs)
        self.output.poison()
        call.run()
        return self.judged(case)

    def judged(self, case: verify.Case) -> torch.Tensor:
        """Return, on the device, the output's error, whether it overran, whether inputs changed."""
        error = verify.worst_error(case, self.output.tensor).to(torch.float64)
        flags = (self.output.overrun(), verify.inputs_changed(case, self.slots.tensors))
        return torch.stack([error, *(flag.to(torch.float64) for flag in flags)])

    def conclude(self, cases: Sequence[verify.Case], found: Sequence[torch.Tensor]) -> float:
        """Wait for judgements and return the largest error; raises WrongResult."""
        rows = torch.stack(list(found)).tolist()
        for case, (error, overrun, changed) in zip(cases, rows, strict=True):
            if changed:
                cause, fact = Cause.INPUT_CHANGED, "the program changed its inputs"
            elif overrun:
                cause, fact = Cause.OVERRUN, "the program wrote outside its output"
            elif error != error:
                cause, fact = Cause.NOT_A_NUMBER, "elements are NaN"
            elif error > 1:
                cause, fact = Cause.OFF, f"off by {error:.3g} times the tolerance"
            else:
                continue
            raise WrongResult(cause, f"{case.name}: {fact}", case)
        return max((row[0] for row in rows), default=0.0)

    def _sharpened(self, wrong: WrongResult, call: Call) -> WrongResult:
        """Tell NaN that was computed from elements that were never written, by one more run."""
        if wrong.cause is not Cause.NOT_A_NUMBER or wrong.case is None:
            return wrong
        self._run_and_judge(wrong.case, call)
        if not self.output.untouched():
            return wrong
        fact = "elements were never written"
        return WrongResult(Cause.NOT_WRITTEN, f"{wrong.case.name}: {fact}", wrong.case)

    def _samples(self, call: Call, abort_above_us: float | None) -> list[float]:
        samples = self.timer.samples_us(call.repeat, QUICK)
        if abort_above_us is not None and median(samples) > abort_above_us:
            return samples
        plan = Plan()
        while count := plan.more(samples):
            samples += self.timer.samples_us(call.repeat, count)
        return samples

    def _still_right(self, call: Call) -> float:
        """Judge the output of the last timed run, and of a run after the data were exchanged.

        The program keeps its workspaces, so one that computes once and repeats itself is seen.
        Preparations belong to their data: they run again with the data exchanged.
        """
        last, other = self.cases[-1], self.cases[-2]
        found = [self.judged(last), self._run_and_judge(other, call)]
        try:
            return self.conclude([last, other], found)
        except WrongResult as error:
            raise WrongResult(Cause.LATER, f"after timing, {error}") from error

    def _check_possible(self, latency_us: float) -> None:
        """Raise WrongResult on no time at all, or one that the device's data sheet rules out."""
        if not 0 < latency_us < math.inf:
            raise WrongResult(Cause.IMPOSSIBLE, f"impossible time: {latency_us} us")
        if self.target is None or not _is_device(self.target.device_names, self.device):
            return
        least = least_us(self.workload, self.target)
        if latency_us < least:
            raise WrongResult(
                Cause.IMPOSSIBLE,
                f"impossible time: {latency_us:.3g} us, the data sheet permits {least:.3g} us",
            )


def usable(device: torch.device) -> torch.device:
    """Return ``device`` with its index. Raises NoGpu where torch cannot use it."""
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = device.index or 0
    if index >= count:
        there = f"cuda:0 to cuda:{count - 1}" if count else "none"
        raise NoGpu(f"torch {torch.__version__} finds no such CUDA device; there is {there}")
    return torch.device("cuda", index)


def uuid_of(device: torch.device) -> str:
    """Return the device's UUID as the driver spells it, "" for what is no GPU or has none."""
    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
    return f"GPU-{uuid}" if uuid else ""


def _l2_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def _is_device(names: Sequence[str], device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_name(device) in names
