"""The terms of the time of a computation whose blocks are not multiplied, in closed form.

What memory has to move, what the lanes of the busiest multiprocessor have to issue, what passes
through its first-level cache, and what one program after another waits for. Ranks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model import machine as rates
from cost_model.machine import Machine
from cost_model.traffic import (
    Column,
    contiguous_bytes,
    hbm_bytes,
    in_flight_bytes,
    queued,
    resident,
)
from search_space.case import Case, ceil_div, points
from search_space.sketch import Stream

#: Bytes that one access of a warp moves in a clock of the first-level cache.
LINE_BYTES = 128
#: Rows of a block whose lines an access finds in that clock (measured on an H200, 2026-12, 3x3
#: windows of 144 channels: lanes over 16 of them take 1.2 times, over 8 of them 1.9 times what
#: lanes over 32 take, with as many instructions).
ROWS_A_CLOCK = 2.0
#: Schedulers of a multiprocessor, each of which issues one instruction in a clock.
SCHEDULERS = 4
#: Instructions of a load beside itself where its place is tested: a share of the tests, which taps
#: have in common, and the zero that it leaves behind; and of every load: its address. 135 loads of
#: 5x5 windows, four rows together, took 601 instructions, 200 of them multiply-adds (sm_90).
TESTED, ADDRESSED = 1.2, 0.4
#: Instructions of a multiply-add or the like, for each element, and what widening one adds.
POINT, WIDENED = 1.0, 1.0
#: Bytes through L2 over those of memory where windows of neighbouring programs overlap.
OVERLAPPING = 1.3
#: Instructions of a program beside its loops: its place, its addresses, its last exchange.
PROGRAM_INSTRUCTIONS = 120.0
#: What the ends of a row of a block cost memory, in bytes of it, and the row that has no more of
#: them if it is longer: what lies beside it was asked for by others.
ROW_ENDS_BYTES, WHOLE_ROW_BYTES = 8.0, 256.0


@dataclass(frozen=True, slots=True)
class Work:
    """What computing without products of blocks takes, microseconds, one value per candidate."""

    issue_us: Column
    alone_us: Column
    l2_us: Column
    hbm_us: Column


def work(case: Case, unit: Machine) -> Work:
    """Return the terms, without joining, packing and launches."""
    clock_us = 1e6 / unit.clock_hz
    warps = np.asarray(1.0 * case.warps)
    issued, moved = _turn_clocks(case)
    turn = np.maximum(issued * warps / SCHEDULERS, moved * warps) * clock_us
    program = PROGRAM_INSTRUCTIONS * warps / SCHEDULERS * clock_us + _store_us(case, clock_us)
    busy = queued(case) * (case.iterations * turn + program)
    latency = rates.L2_LATENCY_US["pointer"] + rates.MEMORY_LATENCY_US
    rounds = ceil_div(queued(case), np.minimum(resident(case), queued(case)))
    alone = rounds * (case.iterations * (latency + turn) + program + latency)
    moved_bytes = hbm_bytes(case, unit.l2_kept_bytes)
    overlap = OVERLAPPING if any(s.masked for s in case.structure.streams) else 1.0
    paced = in_flight_bytes(case) / (1e-6 * latency)
    row = np.minimum(contiguous_bytes(case), WHOLE_ROW_BYTES)
    rate = unit.memory_bytes_per_s * row / (row + ROW_ENDS_BYTES)
    memory = 1e6 * moved_bytes * np.sqrt(rate**-2.0 + paced**-2.0)
    return Work(busy, alone, 1e6 * overlap * moved_bytes / unit.l2_bytes_per_s, memory)


def _turn_clocks(case: Case) -> tuple[Any, Any]:
    """Instructions of one warp in a turn, and clocks of the first-level cache that they take."""
    s = case.structure
    held = np.maximum(points(case) / (32.0 * case.warps), 1.0)
    wide = max(stream.width for stream in s.streams)
    issued: Any = POINT * held * s.steps
    moved: Any = 0.0
    for stream in s.streams:
        accesses, lines = _accesses(case, stream, held, wide)
        narrow = WIDENED * (stream.element_bytes < 4) * accesses * stream.width
        beside = ADDRESSED + TESTED * stream.masked
        issued = issued + stream.loads * (accesses * (1 + beside) + narrow)
        moved = moved + stream.loads * accesses * lines
    return issued, moved


def _accesses(case: Case, stream: Stream, held: Any, wide: int) -> tuple[Any, Any]:
    """Return the accesses of a thread for its share of one block, and the lines of each.

    A thread holds ``wide`` neighbouring elements along the lanes, and ``held`` in all. Where lanes
    fill less than a warp, the others lie in other rows, and these in lines of their own.
    """
    side = case.structure.lanes
    along_lanes = side in stream.along
    across = set(stream.along) - {side}
    lanes = np.minimum(wide, held) if along_lanes else 1.0
    others = np.maximum(held / np.minimum(wide, held), 1.0) if across else 1.0
    accesses = np.maximum(lanes * others / min(stream.width, wide), 1.0)
    if not along_lanes or stream.stride == 0:
        return accesses, 1.0
    reached = np.minimum(32, np.maximum(getattr(case, f"tile_{side}") / wide, 1))
    apart = stream.stride * max(wide, stream.width) * stream.element_bytes
    rows = np.maximum(32 / reached / ROWS_A_CLOCK, 1.0) if across else 1.0
    return accesses, rows * np.clip(reached * apart / LINE_BYTES, 1, reached)


def _store_us(case: Case, clock_us: float) -> Any:
    s = case.structure
    elements = 1.0 * case.tile_m * case.tile_n * s.copies
    written = elements * case.stored_bytes / rates.L2_PORT_BYTES_PER_CLOCK
    return (written + elements * s.epilogue_calls / rates.LANES) * clock_us
