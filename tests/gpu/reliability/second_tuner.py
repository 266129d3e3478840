"""A tuner for tests of two at once: waits for the GPU, measures, and says when. JSON lines."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress

import gpu_work

from measure.service import GpuBusy


def say(event: str, **values: object) -> None:
    print(json.dumps({"event": event, "at_s": time.time(), **values}), flush=True)


def main(count: int, wait_s: float) -> None:
    say("start")
    waited: list[str] = []
    with (
        suppress(GpuBusy),
        gpu_work.open_gpu(wait_s, waited.append) as service,
    ):
        say("open", waited=waited)
        results = service.submit([gpu_work.alias(n) for n in range(count)]).results(120)
        say("done", results=[type(r).__name__ for r in results])
        return
    say("busy", waited=waited)


main(int(sys.argv[1]), float(sys.argv[2]))
