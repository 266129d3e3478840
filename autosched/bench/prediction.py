"""A comparison on a machine without a GPU: our time predicted, libraries absent.

Knows the analytic model and no device. What it says is marked predicted wherever it is written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autosched.bench.contest import Contest, Outcome
from autosched.bench.row import Interval
from autosched.runtime.served import Served
from cost_model.analytic_model import predict_us
from search_space.rules import NoSketch, sketches
from search_space.schedule import Schedule
from search_space.target import Target
from search_space.workload import Workload

NOT_RUN = "not run: this machine has no GPU, times are predicted"


class Predictor:
    """Serves as another does and remembers the schedules, to predict the time of their programs."""

    def __init__(self, serve: Callable[[Workload], Served], target: Target) -> None:
        self._serve = serve
        self._target = target
        self._served: dict[str, Served] = {}

    def serve(self, workload: Workload) -> Served:
        """Return what serves ``workload``."""
        return self.remember(self._serve(workload))

    def remember(self, served: Served) -> Served:
        """Return what serves, whose time can be predicted from now on."""
        if served.fingerprint:
            self._served[served.fingerprint] = served
        return served

    def referee(self, contest: Contest) -> Outcome:
        """Predict every program that was served here; no library runs."""
        times: dict[str, Interval] = {}
        failures = dict.fromkeys(contest.libraries, NOT_RUN)
        for name, program in contest.programs.items():
            time_us = self._predicted_us(contest.workload, program.fingerprint)
            if time_us is None:
                failures[name] = "a schedule of no sketch: the model has no prediction"
            else:
                times[name] = Interval(time_us, time_us, time_us)
        yardstick = times.get(contest.yardstick or "")
        ratios = {n: t.scaled(1 / yardstick.value) for n, t in times.items()} if yardstick else {}
        return Outcome(times_us=times, ratios=ratios, failures=failures)

    def _predicted_us(self, workload: Workload, fingerprint: str) -> float | None:
        served = self._served.get(fingerprint)
        if served is None or served.schedule is None:
            return None
        return predicted_us(workload, served.schedule, self._target)


def predicted_us(workload: Workload, schedule: Schedule, target: Target) -> float | None:
    """Return the analytic model's time in microseconds; None for a schedule of no sketch."""
    try:
        known = {sketch.name: sketch for sketch in sketches(workload, target)}
    except NoSketch:
        return None
    sketch = known.get(schedule.sketch)
    if sketch is None or set(schedule.choices) != set(sketch.names):
        return None
    row = np.array([[schedule.choices[name] for name in sketch.names]], dtype=np.int64)
    return float(predict_us(sketch, row, target)[0])
