"""A fixed piece of work that shows how fast a device is just now. Knows no program.

Products of half-precision matrices, back to back: a few milliseconds, several of the slices in
which a device takes turns between processes, and at the pace of the clock that kernels run at.
"""

from __future__ import annotations

import torch

from measure.gpu_timer import GpuTimer
from search_space.target import Target

M, N, K = 4096, 4096, 2048
REPEATS = 32
#: What one reading may take beyond the rate that the library sustains on large products.
MARGIN = 1.25


class Anchor:
    """The work and its data, on the current CUDA device."""

    def __init__(self, timer: GpuTimer) -> None:
        self._timer = timer
        generator = torch.Generator("cuda").manual_seed(0)
        self._a, self._b = (
            torch.randn(shape, generator=generator, device="cuda", dtype=torch.float16)
            for shape in ((M, K), (K, N))
        )
        self._out = torch.empty((M, N), device="cuda", dtype=torch.float16)
        # The first call loads the library's kernel.
        self._multiply()

    def reading_us(self) -> float:
        """Return the microseconds of the work now."""
        return self._timer.stretch_us(self._multiply, REPEATS)

    def _multiply(self) -> None:
        torch.mm(self._a, self._b, out=self._out)


def expected_us(target: Target) -> float | None:
    """Return about what a reading takes on a device of this kind, or None where that is unknown."""
    rate = target.measured_operations_per_s.get("float16")
    return MARGIN * REPEATS * 2e6 * M * N * K / rate if rate else None
