"""The analytic time of one schedule, however it was made. Knows nothing of sketches."""

from __future__ import annotations

from cost_model.terms import times
from search_space.apply import replay
from search_space.case import case_for
from search_space.describe import describe
from search_space.schedule import Schedule
from search_space.target import Target
from search_space.workload import Workload


def predict_schedule_us(workload: Workload, schedule: Schedule, target: Target) -> float | None:
    """Return the predicted time of ``schedule`` in microseconds, by the same closed form as the
    analytic model; None for a schedule that keeps a contraction off the tensor cores, of which
    the model knows nothing.

    Raises:
        IllegalStep: a step that may not apply.
    """
    description = describe(workload, replay(workload, schedule))
    if description is None:
        return None
    case = case_for(description.structure, description.choices, target)
    return float(times(case, 1).total_us[0])
