"""A landscape of predicted times: for tests, and to try an experiment where none was recorded.

Times are the analytic model's with a deviation of its own for each schedule and for each value of
a choice, so that there is something to learn; some schedules fail. All of them are marked as
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

import autosched
from autosched.landscape.form import Head, Line, Rule, SketchText
from autosched.spec import from_data
from cost_model.analytic_model import predict_us
from measure.measurement import Cause, CompiledFacts, Failed, Failure, Measurement, Timed
from measure.record import Provenance, WorkloadText, evidence_of, facts_of, status_of
from measure.timing import summarise
from search_space import target as targets
from search_space.rules import sketches
from search_space.sample import random_choices
from search_space.sketch import Sketch

#: Standard deviations of the logarithm of a time: by value of a choice, by schedule, by repeat.
BY_VALUE, BY_SCHEDULE, BY_REPEAT = 0.1, 0.03, 0.005
REPEATS = 9
#: Share of schedules that fail.
FAILING = 0.1
#: Draws for each schedule wanted before the space counts as exhausted.
DRAWS = 20


def synthetic(
    spec: Mapping[str, Any], schedules: int, seed: int = 0, most_sketches: int | None = None
) -> tuple[Head, tuple[Line, ...]]:
    """Return head and lines of a landscape of ``spec``; equal arguments, equal landscape.

    Schedules are drawn uniformly from the first ``most_sketches`` sketches; fewer come back from
    a small space. Raises NoSketch, SpecError.
    """
    rng = Random(seed)
    workload = from_data("a synthetic landscape", spec).workload
    target = targets.load("h200")
    space = sketches(workload, target)[:most_sketches]
    held: dict[tuple[int, tuple[int, ...]], Line] = {}
    for _ in range(DRAWS * schedules):
        if len(held) == schedules:
            break
        n = rng.randrange(len(space))
        drawn = random_choices(space[n], target, rng)
        if drawn is None:
            continue
        row = tuple(drawn[name] for name in space[n].names)
        time_us = float(predict_us(space[n], np.array([row], np.int64), target)[0])
        outcome = _outcome(space[n], row, time_us, seed)
        held.setdefault((n, row), _line(n, row, f"{len(held):016x}", outcome))
    head = Head(
        spec=dict(spec),
        workload=WorkloadText(key=workload.key, text=workload.canonical, label=workload.label),
        device="model",
        target=target.name,
        gpu="",
        rendering_version=0,
        rule=Rule(kind="sampled", seed=seed),
        sketches=tuple(SketchText(name=s.name, choices=s.names) for s in space),
        library=None,
        builders=1,
        search_s=0.0,
        command="synthetic",
        provenance=Provenance(
            autosched=autosched.__version__, torch="", triton="", driver="", seed=seed, time=""
        ),
    )
    return head, tuple(held.values())


def _outcome(sketch: Sketch, row: tuple[int, ...], time_us: float, seed: int) -> Measurement:
    rng = Random(f"{seed} {sketch.name} {row}")
    if rng.random() < FAILING:
        return Failed(Failure.COMPILE, "planted", None, 0.5, 0.0, Cause.REFUSED)
    shift = rng.gauss(0.0, BY_SCHEDULE)
    for name, value in zip(sketch.names, row, strict=True):
        shift += Random(f"{seed} {name} {value}").gauss(0.0, BY_VALUE)
    middle_us = time_us * math.exp(shift)
    timing = summarise([middle_us * math.exp(rng.gauss(0.0, BY_REPEAT)) for _ in range(REPEATS)])
    facts = CompiledFacts(rng.randrange(32, 256), 0, 1 << 14, 1 << 13, {})
    timed = Timed(timing, facts, None, round(rng.uniform(0.5, 2.0), 3), 0.02)
    return replace(timed, predicted=True)


def _line(sketch: int, row: tuple[int, ...], program: str, outcome: Measurement) -> Line:
    return Line(
        sketch=sketch,
        choices=row,
        program=program,
        measurement=status_of(outcome),
        facts=facts_of(outcome),
        evidence=evidence_of(outcome),
    )
