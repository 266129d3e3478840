"""Records whose checksums are right and that lie: nothing of them reaches a kernel's text."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from autosched.runtime.catalog import catalogue
from autosched.runtime.choice import choices
from autosched.runtime.device import Setting
from autosched.runtime.tuned import Tuned
from autosched.te.operators import matmul
from measure.record import TrialRecord, WorkloadText

WORK = matmul(64, 64, 64, dtype="float16")
CODE = "i0); import os; os.system('true') #"
Make = Callable[..., TrialRecord]


def field(step: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets a field of the first step of that kind."""

    def change(schedule: dict[str, Any]) -> None:
        held = next(fields for kind, fields in schedule["steps"] if kind == step)
        held[name] = value

    return change


def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda schedule: schedule.update({name: value})


HOSTILE = {
    "an axis that is code": field("Split", "outer", CODE),
    "an axis that is a word of Python": field("Split", "inner", "lambda"),
    "an axis that is a builtin": field("Split", "inner", "exec"),
    "an axis that hides Triton": field("Split", "inner", "tl"),
    "an axis of another script": field("Split", "outer", "\u0456mport"),
    "an axis of another type": field("Split", "outer", 7),
    "an axis that is there already": field("Split", "outer", "j"),
    "a factor that is code": field("Split", "factor", CODE),
    "a factor that is huge": field("Split", "factor", 10**300),
    "a factor within bounds that is too large": field("Split", "factor", 1 << 40),
    "a factor of 0": field("Split", "factor", 0),
    "a factor of another type": field("Split", "factor", 16.0),
    "warps that are many": field("Warps", "count", 1 << 30),
    "stages that are many": field("Pipeline", "stages", 1 << 30),
    "a nest that is not there": field("Warps", "nest", 1 << 30),
    "a tensor that is code": field("CacheRead", "tensor", CODE),
    "a way that is code": field("CacheRead", "via", CODE),
    "groups of another type": field("Tile", "groups", [[CODE]]),
    "a field that is not known": field("Warps", "source", CODE),
    "a step that is code": put("steps", [[CODE, {}]]),
    "a step that is text": put("steps", [CODE]),
    "steps that are text": put("steps", CODE),
    "a sketch that is code": put("sketch", CODE),
    "a sketch of another type": put("sketch", [CODE]),
    "a choice that is code": put("choices", {CODE: 1}),
    "a choice that is huge": put("choices", {"tile_m": 10**300}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schedule_that_lies_is_refused_with_a_reason(
    record: Make, here: Setting, name: str
) -> None:
    good = record(WORK)
    schedule = deepcopy(good.schedule)
    HOSTILE[name](schedule)
    logged = good.model_copy(update={"schedule": schedule})
    every = list(choices(WORK, catalogue([logged], (), here.place), here))
    assert "tuned" not in {served.source for served in every}
    assert every[0].reason.startswith("its record is not usable: its schedule does not replay: ")
    assert every[0].reason.isprintable()
    texts = [k.source for served in every if served.program for k in served.program.kernels]
    assert texts
    assert not any("import os" in text or "system" in text for text in texts)


def test_names_for_people_are_shown_without_what_steers_a_terminal(
    record: Make, here: Setting
) -> None:
    text = WorkloadText(key=WORK.key, text=WORK.canonical, label="\x1b[2J\x07 label")
    logged = record(WORK).model_copy(update={"workload": text})
    tuned = Tuned(catalogue([logged], (), here.place), here)
    assert all(line.isprintable() for line in tuned.summary().splitlines())
