"""A device, a workload and its data: verify a program, time it, verify it again.

Knows no schedule and nothing of processes. On the CPU, in Triton's interpreter, it only verifies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import torch
import triton
from triton.runtime.errors import OutOfResources

from measure import verify
from measure.build_worker import captured, explain
from measure.floor import least_us
from measure.gpu_timer import GpuTimer
from measure.job import Open, Opened
from measure.launch import BadArgument, Call, Launcher
from measure.measurement import Evidence, Timed
from measure.nvml import driver_version
from measure.output import GuardedOutput, poison
from measure.timing import Plan, summarise
from search_space.program import Program

#: How many samples decide that a program is too slow to be worth timing well.
QUICK = 3


class WrongResult(Exception):
    """An output that is not the reference's; the message says on which data and how far off."""


class NoGpu(Exception):
    """A CUDA device that torch does not find; the message says which are there."""


class DoesNotCompile(Exception):
    """A program that the compiler or the driver refuses; the message is one line."""


class Session:
    """A device, a workload and its data: what every request after Open works with."""

    def __init__(self, request: Open) -> None:
        self.workload = request.workload
        self.target = request.target
        self.seeds = request.seeds
        self.device = usable(torch.device(request.device))
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        torch.set_float32_matmul_precision("highest")
        self.output = GuardedOutput(self.workload.output, self.device)
        self.cases: tuple[verify.Case, ...] = ()
        self.refresh()
        self._timer = GpuTimer(_l2_bytes(self.device)) if self.device.type == "cuda" else None

    def refresh(self) -> None:
        """Make the data anew. The first seed's case is last: it is the one that is timed."""
        self.cases = ()
        seeds = self.seeds[::-1]
        self.cases = (
            verify.edge_case(self.workload, self.seeds[0], self.device),
            *(verify.random_case(self.workload, seed, self.device) for seed in seeds),
        )
        if self.device.type == "cuda":
            # Programs need the memory that the reference took.
            torch.cuda.empty_cache()

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
        """Verify, time and verify again."""
        begun = time.monotonic()
        evidence, call = self._verified(self.load(program))
        samples_us = self._samples(call, abort_above_us)
        error = self._still_right(call)
        timing = summarise(samples_us)
        self._check_possible(timing.latency_us)
        evidence = replace(evidence, max_error=max(evidence.max_error, error))
        return Timed(timing, None, evidence, 0.0, time.monotonic() - begun)

    def load(self, program: Program) -> Launcher:
        """Compile a program and put it on the device; raises DoesNotCompile."""
        try:
            return Launcher(program, self.device)
        except (OutOfResources, BadArgument):
            raise
        except Exception as error:
            raise DoesNotCompile(explain(error, captured())) from error

    def _verified(self, launcher: Launcher) -> tuple[Evidence, Call]:
        """Return the evidence and the call on the last case; raises WrongResult."""
        found = []
        for case in self.cases:
            call = launcher.prepare(case.inputs, self.output.tensor)
            found.append(self._run_and_judge(case, call))
        worst = self.conclude(self.cases, found)
        rtol = max(case.tolerance.rtol for case in self.cases)
        atol = max(case.tolerance.atol for case in self.cases)
        reference = f"{self.cases[-1].reference}, and small integers"
        return Evidence(reference, self.seeds, worst, rtol, atol), call

    def _run_and_judge(self, case: verify.Case, call: Call) -> torch.Tensor:
        """Queue a run into a poisoned output and its judgement: error, overrun, input changed."""
        self.output.poison()
        poison(call.workspaces)
        call.run()
        return self.judged(case)

    def judged(self, case: verify.Case) -> torch.Tensor:
        """Return, on the device, the output's error, whether it overran, whether inputs changed."""
        error = verify.worst_error(case, self.output.tensor).to(torch.float64)
        flags = (self.output.overrun(), verify.inputs_changed(case))
        return torch.stack([error, *(flag.to(torch.float64) for flag in flags)])

    def conclude(self, cases: Sequence[verify.Case], found: Sequence[torch.Tensor]) -> float:
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
        found = [self.judged(case), self._run_and_judge(case, call)]
        try:
            return self.conclude([case, case], found)
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


def _l2_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def _is_device(names: Sequence[str], device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_name(device) in names
