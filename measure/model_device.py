"""A device that compiles for real and makes the times up. Knows no GPU and no cost model.

Programs are built for the target, so that what does not compile fails as it would; the time of
what does comes from a function of the caller's. Every such measurement is marked predicted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from importlib import metadata

from measure.closing import Closing
from measure.comparison import Comparison, judge
from measure.crew import Crew
from measure.job import Built
from measure.measurement import Failed, Failure, Measurement, Timed, Timing
from measure.pipeline import Pipeline
from measure.service import DeviceInfo, OnResult, Pending
from search_space.program import Program
from search_space.target import Target


class ModelDevice(Closing):
    """Builds for ``target`` and takes microseconds from ``predict``. See ``Service``.

    Builders are those of ``crew``; without one they are its own.
    """

    def __init__(
        self,
        target: Target,
        predict: Callable[[Program], float],
        *,
        workers: int | None = None,
        timeout_s: float = 60.0,
        crew: Crew | None = None,
    ) -> None:
        self._target = target
        self._predict = predict
        self._crew = crew or Crew(workers)
        self._own_crew = crew is None
        self._pipeline = Pipeline(
            self._crew.builders(timeout_s), target.triton_target, self._measure
        )

    @property
    def device(self) -> DeviceInfo:
        """What measures: no GPU, a model."""
        versions = ("", _version("torch"), _version("triton"))
        return DeviceInfo("model", "", self._target.name, *versions, predicted=True)

    def submit(
        self,
        programs: Sequence[Program],
        *,
        abort_above_us: float | None = None,
        on_result: OnResult | None = None,
    ) -> Pending:
        """Start building; a time follows each build."""
        return self._pipeline.submit(programs, abort_above_us, on_result)

    def compare(
        self, programs: Sequence[Program], *, library: bool, rounds: int = 50
    ) -> Comparison:
        """Predict every program once; a model has no noise, and no library to compare with."""
        del library, rounds
        results = self.submit(programs).results()
        failures = {n: result for n, result in enumerate(results) if isinstance(result, Failed)}
        times = [() if isinstance(r, Failed) else (r.latency_us,) for r in results]
        return judge(times, failures, None, None, ())

    def drop(self) -> None:
        """Give up what is pending."""
        self._pipeline.drop()

    def close(self) -> None:
        """Leave the builders to the crew, or end them."""
        self._pipeline.close()
        if self._own_crew:
            self._crew.close()

    def _measure(self, program: Program, built: Built, abort_above_us: float | None) -> Measurement:
        del abort_above_us
        held, limit = built.facts.shared_bytes, self._target.shared_memory_per_block_bytes
        if held > limit:
            return Failed(Failure.CONSTRAINTS, f"shared memory: {held} bytes, the limit is {limit}")
        latency_us = self._predict(program)
        timing = Timing(latency_us, latency_us, latency_us, (latency_us,))
        return Timed(timing, None, None, 0.0, 0.0, predicted=True)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def noisy(
    predict: Callable[[Program], float], rng: random.Random, deviation: float = 0.02
) -> Callable[[Program], float]:
    """Return ``predict`` with log-normal noise, equal for equal programs."""
    salt = rng.random()

    def noised(program: Program) -> float:
        factor = random.Random(f"{salt} {program.fingerprint}").lognormvariate(0.0, deviation)
        return predict(program) * factor

    return noised
