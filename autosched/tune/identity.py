"""What the proposals of a run depend on beside outcomes, as plain data, and how two such differ.

Bounds are no part of it: more trials, another budget or another patience leave what was proposed
as it was.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib import metadata
from typing import Any

import numpy as np

import autosched
from autosched.codegen.render import RENDERING_VERSION
from autosched.tune import course, gain
from autosched.tune.strategy import Strategy
from cost_model.features import schema_hash
from measure.record import RunRecord
from measure.service import DeviceInfo
from search_space.sketch import Sketch
from search_space.steps import Open, Step
from search_space.target import Target
from search_space.workload import Workload

#: Distributions that bring the learner, by what they are called on different machines.
LEARNERS = ("xgboost", "xgboost-cpu")


class ResumeRefused(ValueError):
    """A run cannot go on; the message says what, and in a sentence each what has changed."""

    def __init__(self, what: str, differences: Sequence[str]) -> None:
        super().__init__("\n  ".join((what, *differences)))
        self.differences = tuple(differences)


def identity(workload: Workload, target: Target, strategy: Strategy, batch: int) -> dict[str, Any]:
    """Return all that proposals depend on beside outcomes, for the first line of a run."""
    learns = strategy.settings.get("cost_model") == "xgboost"
    return {
        "workload": workload.key,
        "target": _hash(asdict(target)),
        "rendering": RENDERING_VERSION,
        "features": schema_hash(),
        "sketches": {sketch.name: _hash(_sketch_data(sketch)) for sketch in strategy.sketches},
        "search": {
            "strategy": strategy.name,
            **strategy.settings,
            "batch": batch,
            "overlap": course.OVERLAP,
            "first_share": course.FIRST_SHARE,
            "abort_factor": course.ABORT_FACTOR,
            "least_gain": gain.LEAST_GAIN,
            "refills": course.REFILLS,
        },
        "versions": {
            "autosched": autosched.__version__,
            "python": ".".join(platform.python_version_tuple()[:2]),
            "numpy": np.__version__,
            **({"xgboost": _learner()} if learns else {}),
        },
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each difference of two identities. ``then`` comes from a log."""
    if not then:
        return ("its first line does not say what its proposals depend on",)
    return tuple(_differences(then, now))


def device_differences(start: RunRecord, device: DeviceInfo) -> tuple[str, ...]:
    """Return a sentence for each difference in what makes times comparable within a run.

    The driver and torch are none: the final comparison is measured anew.
    """
    pairs = (
        ("the device", start.device, device.kind),
        ("the GPU", start.gpu, device.gpu_name),
        ("the version of triton", start.provenance.triton, device.triton),
    )
    return tuple(_changed(what, then, now) for what, then, now in pairs if then != now)


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    names = {
        "workload": "the workload's key",
        "target": "the data of the target",
        "rendering": "the rendering version",
        "features": "the schema of the features",
    }
    for name, what in names.items():
        if then.get(name) != now[name]:
            yield _changed(what, then.get(name), now[name])
    yield from _space(_mapping(then, "sketches"), now["sketches"])
    search, wished = _mapping(then, "search"), now["search"]
    other = any(search.get(name) != wished.get(name) for name in ("strategy", "cost_model"))
    yield from _settings("{}", search, wished, shared=other)
    yield from _settings("the version of {}", _mapping(then, "versions"), now["versions"], other)


def _settings(
    what: str, then: Mapping[str, Any], now: Mapping[str, Any], shared: bool
) -> Iterator[str]:
    """Compare by name; with ``shared`` only names that both have."""
    for name in dict.fromkeys((*now, *then)):
        if then.get(name) != now.get(name) and not (
            shared and (name not in then or name not in now)
        ):
            yield _changed(what.format(_words(name)), then.get(name), now.get(name))


def _space(then: Mapping[str, Any], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*now, *then)):
        if name not in then:
            yield f"the sketch {name} is new"
        elif name not in now:
            yield f"the sketch {_words(name)} is gone"
        elif then[name] != now[name]:
            yield f"the sketch {name} has other steps, choices or domains"


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    held = data.get(name)
    return held if isinstance(held, Mapping) else {}


def _changed(what: str, then: Any, now: Any) -> str:
    return f"{what} was {_value(then)} and is {_value(now)}"


def _value(value: Any) -> str:
    return "not given" if value in (None, "") else ascii(value)[:80].strip("'")


def _words(name: str) -> str:
    return ascii(name)[1:61].rstrip("'").replace("_", " ")


def _sketch_data(sketch: Sketch) -> dict[str, Any]:
    return {
        "steps": [[type(step).__name__, _step_data(step)] for step in sketch.steps],
        "choices": [[choice.name, list(choice.domain)] for choice in sketch.choices],
        "structure": asdict(sketch.structure),
    }


def _step_data(step: Step) -> dict[str, Any]:
    held = {f.name: getattr(step, f.name) for f in fields(step)}
    return {
        name: {"open": value.choice} if isinstance(value, Open) else value
        for name, value in held.items()
    }


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _learner() -> str:
    for name in LEARNERS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
