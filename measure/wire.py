"""The JSON text in which values cross between processes. Knows nothing of pipes.

Never pickle: what a child sends may have been written over by a stray kernel, and decoding it
must not run anything. A dataclass becomes an object whose ``$`` names its type, a tuple a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from measure import comparison, job, measurement
from search_space import expr, program, target, workload

#: Every type that may cross, by name. A name that is not here is refused.
TYPES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        expr.Affine,
        expr.Read,
        expr.Const,
        expr.Call,
        expr.Cast,
        workload.Axis,
        workload.Tensor,
        workload.Stage,
        workload.Workload,
        target.Target,
        program.Buffer,
        program.PointerArgument,
        program.DescriptorArgument,
        program.Kernel,
        program.Program,
        measurement.CompiledFacts,
        measurement.Conditions,
        measurement.Timing,
        measurement.Evidence,
        measurement.Timed,
        measurement.Failed,
        comparison.Ratio,
        comparison.Comparison,
        *job.TYPES,
    )
}


_ENUMS = {"Failure": measurement.Failure, "Cause": measurement.Cause}


class BadMessage(ValueError):
    """Text that is no message of ours; the value says what was found instead."""


def encode(value: Any) -> bytes:
    """Return the UTF-8 JSON of ``value``; raises TypeError on a type that may not cross."""
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def decode(data: bytes) -> Any:
    """Read what ``encode`` wrote; raises BadMessage on anything else."""
    try:
        return _value(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadMessage(f"not a message: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, (measurement.Failure, measurement.Cause)):
        return {"$": type(value).__name__, "value": value.value}
    if is_dataclass(value) and type(value).__name__ in TYPES:
        held = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {"$": type(value).__name__, **held}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} does not cross between processes")


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_value(item) for item in data)
    if not isinstance(data, dict):
        return data
    held = {key: _value(item) for key, item in data.items() if key != "$"}
    name = data.get("$")
    if name is None:
        return held
    if name in _ENUMS:
        return _ENUMS[name](held["value"])
    return TYPES[name](**held)
