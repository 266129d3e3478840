"""What one multiprocessor of a target does in a clock and waits for, derived from its data.

Knows nothing of schedules. Constants that no data sheet gives are named here with their source;
they were chosen so that the analytic model ranks first what was measured to be fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

from search_space.expr import reads
from search_space.rules.variant import arithmetic
from search_space.sketch import Structure
from search_space.target import Target
from search_space.workload import Workload

#: 16-bit operations (two a multiply-add) of the tensor cores of one multiprocessor in a clock:
#: data sheet rate / (multiprocessors * boost clock).
OPERATIONS_PER_CLOCK: dict[int | str, int] = {80: 2048, 90: 4096, "gfx942": 2048}
#: Bytes that shared memory moves in a clock (32 banks of 4 bytes, CUDA programming guide).
SHARED_BYTES_PER_CLOCK = 128
#: Bytes that a multiprocessor takes from or gives to L2 in a clock (NVIDIA A100 whitepaper).
L2_PORT_BYTES_PER_CLOCK = 64
#: Loads from L2 over the data sheet's memory rate, all multiprocessors together. On the H200 it
#: gives 11 TB/s: 128x256 blocks (85 operations a byte) reach the sustained rate, 128x128 do not.
L2_TO_MEMORY = 2.3
#: Share of L2 that holds operands for reuse: it is two partitions that copy each other's lines.
L2_KEPT = 0.5
#: Rate of mma.sync over that of wgmma where both exist (Hopper microbenchmarks: 0.6 to 0.65).
MMA_SYNC_RATE = 0.62
#: Clocks until the sums of an mma.sync can be added to, with the read of its operands from shared
#: memory (measured on an H200, 2026-12: a program of 2 warps alone on its multiprocessor, 16 x 16
#: x 256 blocks, takes 0.45 us a turn of 16 steps whatever is in flight); the bytes of K of each.
MMA_LATENCY_CLOCKS, STEP_BYTES = 40.0, 32.0
#: Rate of a dot whose operand must pass through registers: 8-bit and tf32 wgmma take K-major
#: operands alone (measured: tf32 with row-major b reaches 0.40 of the library).
THROUGH_REGISTERS_RATE = 0.42
#: Rate of a dot without tensor cores over the peak for large blocks, and the accumulators a
#: thread needs for half of that: operands come from shared memory and serve a row of them.
PLAIN_DOT_RATE = 0.55
PLAIN_DOT_HALF = 24.0
#: Lanes that issue in a clock, and instructions that a product without a dot takes: an operand
#: widened and a multiply-add.
LANES = 128
POINT_INSTRUCTIONS = 2.0
#: Bytes in whose time the copy engine brings a shorter row of a box (measured on an H200: 1.65
#: clocks a row of 32 or 64 bytes, convolutions by boxes of 128 and 256 pixels).
BOX_ROW_BYTES = 106.0
#: Time from asking L2 for a block to having it, by kind of load, microseconds, and what the
#: memory behind L2 adds under load.
L2_LATENCY_US = {"pointer": 0.35, "descriptor": 0.50}
MEMORY_LATENCY_US = 0.45
#: Time from a program's start to its first load, microseconds; descriptors are fetched first.
START_US = {"pointer": 0.5, "descriptor": 0.8}
#: Clocks that one turn of the K loop costs beside the dot: barriers, waits, and with pointers
#: the addresses and masks. Warps beyond four overlap them.
TURN_CLOCKS = {"pointer": 110.0, "descriptor": 60.0}
#: Clocks that a turn takes to see which of its pointers stay within an operand's bounds.
MASKED_CLOCKS = 60.0
#: Clocks of a turn in which nothing else can be issued: barriers and branches.
ISSUE_CLOCKS = 20.0
#: Clocks that two buffers under wgmma add: the next dot cannot be queued behind the running one.
DRAINED_CLOCKS = 300.0
#: Clocks from the end of a turn's dots to those of the next where an operand passes through
#: registers, beside reading it: the dots drain, a barrier, the latency of shared memory.
FILLING_CLOCKS = 150.0
#: Time of dots by pointers over the same by descriptors: copies take issue slots and registers.
POINTER_SLOWDOWN = 1.08
#: Cost of each kernel after the first in a captured graph, as a share of ``launch_us``.
NEXT_KERNEL = 0.75
#: Bytes per second of atomic float32 additions: this share of the rate of stores.
ATOMIC_RATE = 0.35
#: Clocks of 128 lanes that one function of an epilogue takes per element (exp, erf expand).
EPILOGUE_CLOCKS = 4.0


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of one multiprocessor for one kind of arithmetic. Clocks are at the boost clock.

    ``sustained`` is what the vendor library reaches over the peak (power, mostly): clocks of
    the dot are divided by it.
    """

    clock_hz: float
    operations_per_clock: float
    sustained: float
    memory_bytes_per_s: float
    l2_bytes_per_s: float
    l2_kept_bytes: float
    launch_us: float


def machine(structure: Structure, target: Target) -> Machine:
    """Derive the rates of ``target`` for the arithmetic of ``structure``."""
    wide = OPERATIONS_PER_CLOCK.get(target.arch, 2048)
    clock_hz = target.operations_per_s["float16"] / (target.multiprocessors * wide)
    peak = operations_per_s(target, structure.arithmetic)
    measured = target.measured_operations_per_s.get(structure.arithmetic, peak)
    return Machine(
        clock_hz=clock_hz,
        operations_per_clock=peak / (target.multiprocessors * clock_hz),
        sustained=measured / peak,
        memory_bytes_per_s=target.measured_memory_bytes_per_s,
        l2_bytes_per_s=L2_TO_MEMORY * target.memory_bytes_per_s,
        l2_kept_bytes=L2_KEPT * target.l2_bytes,
        launch_us=target.launch_us,
    )


def operations_per_s(target: Target, arithmetic: str) -> float:
    """Return the data sheet's rate; that of float32 for arithmetic that it does not list."""
    return target.operations_per_s.get(arithmetic, target.operations_per_s["float32"])


def roofline_us(workload: Workload, target: Target) -> float:
    """Return the least time of ``workload``, microseconds: peak operations or compulsory bytes.

    ``max(operations / operations_per_s, compulsory_bytes / memory_bytes_per_s)``, both from the
    data sheet: a measurement below it is an error of measurement. The rate is the fastest that
    the data types allow, whether a sketch makes use of it or not: efficiencies over this time
    rank schedules of different sketches.
    """
    rate = max(operations_per_s(target, kind) for kind in _arithmetics(workload))
    operations_s = workload.operations / rate
    return 1e6 * max(operations_s, workload.compulsory_bytes / target.memory_bytes_per_s)


def _arithmetics(workload: Workload) -> set[str]:
    """Return the keys of the target's rates by which ``workload`` may multiply."""
    tensors = workload.tensors
    read = (r for stage in workload.stages if stage.reducer for r in reads(stage.value))
    dtypes = {tensors[r.tensor].dtype for r in read} or {workload.output.dtype}
    return {arithmetic(dtype, workload.precision) for dtype in dtypes}
