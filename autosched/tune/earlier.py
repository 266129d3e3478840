"""What earlier logs and landscapes tell a cost model: their measurements as observations.

Schedules are looked up by sketch and choices in today's space; what is no longer there is left
out, and counted. Made-up times and those of a disturbed device teach nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.landscape.landscape import Landscape
from autosched.spec import SpecError, from_data
from autosched.tune.recorded import RecordedRun, runs
from cost_model.dataset import Observation
from measure.measurement import CompiledFacts, Measurement, Timed
from measure.record import AnyRecord, TrialRecord
from search_space.rules import NoSketch, sketches
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload


@dataclass(frozen=True)
class Earlier:
    """Observations of one target, and how many measurements were left out."""

    observations: tuple[Observation, ...]
    left_out: int

    def __add__(self, other: Earlier) -> Earlier:
        return Earlier(self.observations + other.observations, self.left_out + other.left_out)


def of_log(records: Iterable[AnyRecord], target: Target) -> Earlier:
    """Return the trials of all runs for ``target`` in a log."""
    found = Earlier((), 0)
    spaces: dict[str, Mapping[str, Sketch]] = {}
    for run in runs(records):
        if run.start.target == target.name:
            found += _of_run(run, target, spaces)
    return found


def of_landscape(landscape: Landscape) -> Earlier:
    """Return the points of a landscape."""
    space = {sketch.name: sketch for sketch in landscape.sketches}
    found = [
        observation(
            space,
            point.sketch.name,
            dict(zip(point.sketch.names, point.choices, strict=True)),
            point.outcome,
        )
        for point in landscape.points
    ]
    kept = tuple(one for one in found if one is not None)
    return Earlier(kept, landscape.left_out + len(found) - len(kept))


def observation(
    space: Mapping[str, Sketch], sketch: str, choices: Mapping[str, int], measured: Measurement
) -> Observation | None:
    """Return one observation, or None where ``space``, sketches by name, lacks the schedule or
    the measurement teaches nothing."""
    held = space.get(sketch)
    if held is None or set(choices) != set(held.names):
        return None
    if any(choices[choice.name] not in choice.domain for choice in held.choices):
        return None
    if isinstance(measured, Timed) and (measured.predicted or measured.quarantined):
        return None
    latency_us = measured.latency_us if isinstance(measured, Timed) else None
    return Observation(held, dict(choices), latency_us, facts_of(measured.facts))


def facts_of(facts: CompiledFacts | None) -> dict[str, float] | None:
    """Return what was compiled by the names of ``cost_model.feature_list.FACTS``."""
    if facts is None:
        return None
    held = {
        "registers": facts.registers,
        "stack_bytes": facts.stack_bytes,
        "shared_bytes": facts.shared_bytes,
        "binary_bytes": facts.binary_bytes,
    }
    return {name: float(value) for name, value in {**held, **facts.instructions}.items()}


def _of_run(run: RecordedRun, target: Target, spaces: dict[str, Mapping[str, Sketch]]) -> Earlier:
    trials = run.trials.values()
    workload = _workload(run)
    if workload is None or run.key != workload.key:
        return Earlier((), len(trials))
    if workload.key not in spaces:
        spaces[workload.key] = _space(workload, target)
    found = [_of_trial(trial, spaces[workload.key]) for trial in trials]
    kept = tuple(one for one in found if one is not None)
    return Earlier(kept, len(found) - len(kept))


def _of_trial(trial: TrialRecord, space: Mapping[str, Sketch]) -> Observation | None:
    held: Any = trial.schedule.get("choices")
    choices = held if isinstance(held, dict) else {}
    return observation(space, str(trial.schedule.get("sketch")), choices, trial.measured())


def _workload(run: RecordedRun) -> Workload | None:
    try:
        return from_data(run.start.run, run.start.spec).workload
    except SpecError:
        return None


def _space(workload: Workload, target: Target) -> dict[str, Sketch]:
    try:
        return {sketch.name: sketch for sketch in sketches(workload, target)}
    except NoSketch:
        return {}
