"""A real GPU: programs built by a pool, verified and timed by a worker. Knows no schedule."""

from __future__ import annotations

from collections.abc import Sequence

from measure.closing import Closing
from measure.comparison import Comparison
from measure.crew import Crew
from measure.job import Built
from measure.measurement import Measurement
from measure.pipeline import Pipeline
from measure.runner import Runner
from measure.service import BUILD_TIMEOUT_S, DeviceInfo, OnResult, Patience, Pending
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: How many sets of fresh data a comparison uses.
COMPARE_SEEDS = 3


class CudaDevice(Closing):
    """One GPU with its builders. See ``Service``. Raises NoDevice when it cannot be opened.

    Processes are those of ``crew``, and are left there at the end; without one they are its own.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        device: str,
        *,
        workers: int | None = None,
        timeout_s: float = 10.0,
        build_timeout_s: float = BUILD_TIMEOUT_S,
        seed: int = 0,
        patience: Patience = Patience(),  # noqa: B008  frozen
        crew: Crew | None = None,
    ) -> None:
        self._target = target
        self._seed = seed
        seeds = (2 * seed, 2 * seed + 1)
        # The worker loads the most. The builders load while it takes the device.
        self._crew = crew or Crew(workers)
        self._own_crew = crew is None
        seat = self._crew.seat(device)
        self._pool = self._crew.builders(build_timeout_s)
        try:
            self._runner = Runner(
                workload,
                target,
                device,
                seeds=seeds,
                timeout_s=timeout_s,
                patience=patience,
                seat=seat,
            )
        except BaseException:
            if self._own_crew:
                self._crew.close()
            raise
        self._pipeline = Pipeline(self._pool, target.triton_target, self._measure)

    @property
    def device(self) -> DeviceInfo:
        """What measures."""
        opened = self._runner.opened
        return DeviceInfo(
            "cuda",
            opened.gpu_name,
            self._target.name,
            opened.driver,
            opened.torch,
            opened.triton,
        )

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        """Start building; verifying and timing follow as builds end."""
        return self._pipeline.submit(programs, abort_above_us, on_result)

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int = 50
    ) -> Comparison:
        """Time programs in turns on fresh data, after what is ready to be measured now."""
        for future in [self._pool.submit(p, self._target.triton_target) for p in programs]:
            future.result()
        first = 1000 * (self._seed + 1)
        seeds = tuple(range(first, first + COMPARE_SEEDS))
        found: list[Comparison] = []
        self._pipeline.run(
            lambda: found.append(
                self._runner.compare(programs, library=library, rounds=rounds, seeds=seeds)
            )
        )
        return found[0]

    def drop(self) -> None:
        """Give up what is pending."""
        self._pipeline.drop()

    def close(self) -> None:
        """Leave the builders and the worker to the crew, or end them."""
        self._pipeline.close(self._runner.kill)
        self._runner.close()
        if self._own_crew:
            self._crew.close()

    def _measure(self, program: Program, built: Built, abort_above_us: float | None) -> Measurement:
        del built
        return self._runner.measure(program, abort_above_us)
