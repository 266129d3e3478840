"""Schedule a matmul by hand, step by step: render it, check it, time it, compare it.

With a GPU both schedules are verified and measured on it. Without one they are checked in
Triton's interpreter, on a smaller matmul, and their times are predicted.
"""

import sys

from autosched.codegen.render import render
from autosched.te import operators
from cost_model.prediction import predict_schedule_us
from measure.interpret import check
from measure.measurement import Failed
from measure.service import NoDevice, open_service
from search_space.apply import IllegalStep, replay
from search_space.schedule import Schedule
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Persist,
    Pipeline,
    Split,
    Tensorize,
    Tile,
    Warps,
)
from search_space.target import load
from search_space.workload import Workload

TARGET = load("h200")


def matmul(size: int) -> Workload:
    """Return the square product of that size in float16."""
    return operators.matmul(size, size, size, dtype="float16")


# Small blocks, loaded by pointers, nothing in flight while the tensor cores work.
NAIVE = Schedule(
    (
        Split("i", "i0", "i1", 64),
        Split("j", "j0", "j1", 64),
        Split("k", "k0", "k1", 32),
        Tile((("i1",), ("j1",), ("k1",))),
        Bind(("i0", "j0")),
        Tensorize(),
    )
)

# Large blocks in programs that persist, fed by the copy engine, three loads in flight.
BY_HAND = Schedule(
    (
        Split("i", "i0", "i1", 128),
        Split("j", "j0", "j1", 256),
        Split("k", "k0", "k1", 64),
        Tile((("i1",), ("j1",), ("k1",))),
        Bind(("i0", "j0"), swizzle=4),
        Persist(TARGET.multiprocessors),
        CacheRead("A", "descriptor"),
        CacheRead("B", "descriptor"),
        Tensorize(),
        CacheWrite("descriptor", parts=2),
        Pipeline(stages=3),
        Warps(8),
    )
)


def measured_us(workload: Workload, schedule: Schedule) -> float:
    """Verify and time on the GPU; raises NoDevice without one."""
    program = render(workload, schedule, TARGET)
    with open_service(workload, TARGET, "cuda", workers=1, timeout_s=30.0) as service:
        (outcome,) = service.submit([program]).results()
    if isinstance(outcome, Failed):
        sys.exit(f"{outcome.kind}: {outcome.detail}")
    return outcome.latency_us


def predicted_us(workload: Workload, schedule: Schedule) -> float:
    """Check on a smaller matmul in the interpreter, then predict the time of the real one."""
    small = matmul(256)
    outcome = check(small, render(small, schedule, TARGET), seed=0)
    if isinstance(outcome, Failed):
        sys.exit(f"{outcome.kind}: {outcome.detail}")
    print(f"    right to {outcome.max_error:.2f} of the tolerance, in the interpreter")
    return predict_schedule_us(workload, schedule, TARGET) or float("nan")


def main() -> None:
    """Print the kernel, both times, and what an illegal step says."""
    workload = matmul(4096)
    print(render(workload, BY_HAND, TARGET).source)
    times = []
    for name, schedule in (("naive", NAIVE), ("by hand", BY_HAND)):
        try:
            latency_us, how = measured_us(workload, schedule), "measured"
        except NoDevice:
            latency_us, how = predicted_us(workload, schedule), "predicted"
        times.append(latency_us)
        rate = workload.operations / latency_us / 1e6
        print(f"{name:>8}: {latency_us:8.1f} us {how}, {rate:.0f} TFLOP/s")
    print(f"by hand is {times[0] / times[1]:.2f} times as fast")
    try:
        replay(workload, Schedule((*BY_HAND.steps, Split("i", "a", "b", 2))))
    except IllegalStep as refusal:
        print(f"an illegal step explains itself: {refusal}")


if __name__ == "__main__":
    main()
