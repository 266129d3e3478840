"""Candidates a second, and seconds to the first, on a cold cache. Prints one JSON line.

Needs nothing but ``open_service``, so that an older autosched on PYTHONPATH can be asked too.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import hand_kernels as kernels

from measure.measurement import Failed, Timed
from measure.service import open_service
from search_space import target as targets


def candidates(count: int, size: int) -> tuple[object, list[object]]:
    """Different programs of one matmul: tiles, warps and stages."""
    w = kernels.workload(size, size, size)
    tiles = [(m, n, k) for m in (64, 128) for n in (64, 128, 256) for k in (32, 64)]
    made = []
    for stages in (2, 3, 4):
        for warps in (4, 8):
            for make in (kernels.pointer_matmul, kernels.descriptor_matmul):
                for tile in tiles:
                    base = make(w, tile)
                    kernel = replace(base.kernels[0], stages=stages, warps=warps)
                    made.append(replace(base, kernels=(kernel,)))
    return w, made[:: max(1, len(made) // count)][:count]


def main(device: str, count: int, size: int) -> None:
    begun = time.monotonic()
    w, programs = candidates(count, size)
    target = targets.load("h200")
    first_s: list[float] = []

    def seen(_: int, measurement: object) -> None:
        if not first_s and isinstance(measurement, Timed):
            first_s.append(time.monotonic() - begun)

    if device == "model":
        service = open_service(w, target, "model", predict=lambda _: 10.0, timeout_s=60.0)
    else:
        service = open_service(w, target, device, timeout_s=60.0)
    with service:
        opened_s = time.monotonic() - begun
        results = service.submit(programs, on_result=seen).results(300)
        done_s = time.monotonic() - begun
        runner = getattr(service, "_runner", None)
        opening = dict(getattr(getattr(runner, "opened", None), "seconds", {}))
    timed = [r for r in results if isinstance(r, Timed)]
    print(
        json.dumps(
            {
                "candidates": len(programs),
                "timed": len(timed),
                "failed": sorted({r.detail[:80] for r in results if isinstance(r, Failed)})[:3],
                "open_s": round(opened_s, 2),
                "opening": {name: round(s, 2) for name, s in opening.items()},
                "first_s": round(first_s[0], 2) if first_s else None,
                "all_s": round(done_s, 2),
                "per_s": round(len(programs) / done_s, 1),
                "build_s": round(sum(r.build_s for r in timed) / max(1, len(timed)), 3),
                "run_ms": round(1e3 * sum(r.run_s for r in timed) / max(1, len(timed)), 2),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
