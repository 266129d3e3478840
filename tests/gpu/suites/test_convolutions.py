"""Every sketch of every convolution of the suite on a real GPU, at several warps and stages.

The nearest legal choices to a middling block are built and verified; none may be wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosched.codegen.render import render
from autosched.spec import loader
from measure.crew import Crew
from measure.measurement import Failed, Failure, Timed
from measure.service import open_service
from search_space import target as targets
from search_space.limits import violation
from search_space.program import Program
from search_space.rules import sketches
from search_space.sample import mutate, random_choices
from search_space.sketch import Sketch, fill
from search_space.workload import Workload

pytestmark = pytest.mark.gpu
H200 = targets.load("h200")
SUITE = Path(__file__).parents[3] / "configs" / "suites" / "conv.yaml"
TASKS = {task.id: task for task in loader.load(str(SUITE))}
WARPS, STAGES = (4, 8), (1, 3, 5)
#: What says nothing about the schedule's text: it took more than the GPU or the compiler has.
NOT_RUN = (Failure.COMPILE, Failure.CONSTRAINTS)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as lent:
        yield lent


def programs(workload: Workload) -> Iterator[tuple[str, Program]]:
    for sketch in sketches(workload, H200):
        for warps, stages in itertools.product(WARPS, STAGES):
            choices = _with(sketch, {"warps": warps, "stages": stages})
            if choices:
                name = f"{sketch.name} {choices}"
                yield name, render(workload, fill(sketch, choices), H200)


def _with(sketch: Sketch, wish: dict[str, int]) -> dict[str, int] | None:
    """Return legal choices that hold what is wished, where a few draws find some."""
    rng = random.Random(f"{sketch.name} {wish}")
    held = {n: v for n, v in wish.items() if n in sketch.names}
    choices = random_choices(sketch, H200, rng)
    for _ in range(200):
        if choices is None:
            return None
        wanted = {**choices, **held}
        domains = {c.name: c.domain for c in sketch.choices}
        inside = all(wanted[n] in domains[n] for n in held)
        if inside and violation(sketch, wanted, H200) is None:
            return wanted
        choices = mutate(sketch, choices, H200, rng)
    return None


@pytest.mark.parametrize("row", TASKS)
def test_no_schedule_of_a_convolution_is_wrong(row: str, crew: Crew) -> None:
    workload = TASKS[row].workload
    named = dict(programs(workload))
    assert named
    with open_service(workload, H200, "cuda:0", timeout_s=20.0, crew=crew) as service:
        results = service.submit(list(named.values())).results(300)
    outcomes = dict(zip(named, results, strict=True))
    bad = {
        name: result
        for name, result in outcomes.items()
        if isinstance(result, Failed) and result.kind not in NOT_RUN
    }
    assert not bad
    assert any(isinstance(result, Timed) for result in results)
