"""What the tests of reliability measure: one workload, on the GPU or rehearsed on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import hand_kernels as kernels
import hostile_kernels as hostile

from measure import cuda_device
from measure.crew import Crew
from measure.runner import Runner
from measure.service import Patience, Service, open_service
from search_space import target as targets
from search_space.program import Program

DRY = bool(os.environ.get("AUTOSCHED_DRY_RUN"))
DEVICE = "cpu" if DRY else "cuda:0"
H200 = targets.load("h200")
WORKLOAD = kernels.workload(32, 64, 48) if DRY else kernels.workload(512, 512, 512)
TILE = (16, 32, 16) if DRY else (64, 64, 32)
TIMEOUT_S = 20.0 if DRY else 6.0
GOOD = kernels.pointer_matmul(WORKLOAD, TILE)
HOSTILE = {
    name: candidate
    for name, candidate in hostile.all_of(WORKLOAD, TILE).items()
    if not (DRY and candidate.gpu)
}


def alias(number: int) -> Program:
    """The same kernel under another name: a comment makes its text another one."""
    source = f"{GOOD.kernels[0].source}    # 20 us, by the name of {number}\n"
    return kernels.with_source(GOOD, source)


def open_runner() -> Runner:
    module = "cpu_worker" if DRY else "measure.gpu_worker"
    return Runner(WORKLOAD, H200, DEVICE, timeout_s=TIMEOUT_S, module=module)


def open_gpu(wait_s: float | None = None, on_wait: Callable[[str], None] | None = None) -> Service:
    if not DRY:
        return open_service(
            WORKLOAD, H200, DEVICE, timeout_s=TIMEOUT_S, wait_s=wait_s, on_wait=on_wait
        )
    cuda_device.Crew = partial(Crew, module="cpu_worker")  # type: ignore[assignment,misc]
    patience = Patience(wait_s, on_wait)
    return cuda_device.CudaDevice(
        WORKLOAD, H200, DEVICE, workers=1, timeout_s=TIMEOUT_S, patience=patience
    )
