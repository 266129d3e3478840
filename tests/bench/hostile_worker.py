"""A stand-in for the benchmark's worker: entrants misbehave by name, times are made up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any


def handle(request: Mapping[str, Any], note: Callable[[str], None]) -> dict[str, Any]:
    if "identify" in request:
        return {"uuid": os.environ.get("HOSTILE_UUID", "")}
    names = [*request["names"], *request["libraries"]]
    if "hopeless" in names:
        note("")
        os._exit(4)
    for name in names:
        note(name)
        if name == "exits":
            os._exit(3)
        if name == "hangs":
            time.sleep(60)
        if name == "sticky":
            return {"broken": name, "detail": "an illegal address"}
    if "anonymous" in names:
        note("anonymous" if request["careful"] else "")
        os._exit(3)
    rounds = tuple(10.0 for _ in range(request["rounds"]))
    nothing: dict[str, Any] = {"rel_err": {}, "host_us": {}, "setup_s": {}, "failures": {}}
    return {"times_us": dict.fromkeys(names, rounds)} | nothing
