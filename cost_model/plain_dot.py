"""A dot without tensor cores: what its lanes read from shared memory and issue, from choices alone.

Triton 3.6 gives each thread squares of 4 x 4 accumulators (2 x 2 or one where a thread has few),
lays lanes, then warps, along the columns of the dot first, and writes all multiply-adds of a block
out (read off kernels compiled for sm_90). Shared memory is not swizzled for such a dot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model.traffic import queued, resident
from search_space.case import Case

#: Elements of float32 that one load of 16 bytes brings to a lane.
WIDE = 4
#: Bytes that shared memory serves at once, and those of an element.
BANKS_BYTES, ELEMENT_BYTES = 128, 4
#: Lanes of a warp, and quarters of a multiprocessor, each of which issues for one warp in a clock.
LANES, QUARTERS = 32, 4
#: Instructions of a warp in one turn beside loads from shared memory and multiply-adds: copies,
#: barriers, addresses (43 to 60 in compiled loops).
BESIDE = 45.0
#: Visits that a load counts for where more lanes than two meet in the same banks (measured on an
#: H200: products bound by such loads take 1.8 to 2.1 times what one visit a lane would take).
COLLISION = 2.0
#: Share of issue slots that enough warps fill, and what each adds until then (measured on an H200:
#: 2048 cubed takes 362 to 400 us with 8 warps or more on a multiprocessor, and rounds of 4 warps
#: run at half of that rate). Clocks are those of ``Machine.clock_hz``.
ISSUE_RATE, WARP_ISSUE_RATE = 0.88, 0.11
#: What is left of it where the first operand is K-major: more of it waits in registers (measured:
#: 1.04 to 1.13 times the time).
FIRST_K_MAJOR_RATE = 0.92


@dataclass(frozen=True, slots=True)
class Operand:
    """What a thread of a plain dot reads of one operand: loads for one step of K, and how many
    places of shared memory the lanes of its warp visit in each (1: all in one go)."""

    loads: Any
    visits: Any


@dataclass(frozen=True, slots=True)
class PlainDot:
    """How a plain dot is spread: each thread holds ``rows`` x ``columns`` accumulators."""

    rows: Any
    columns: Any
    first: Operand
    second: Operand


def plain_dot(case: Case) -> PlainDot:
    """Return how the dot of ``case`` is spread over lanes, and how they read its operands.

    Rows of K are multiples of 64 bytes, and the lanes along a side are 4 of them apart: all in the
    same banks, a visit each. Where M or N runs along the rows, lanes read side by side.
    """
    height, width = (
        (case.tile_n, case.tile_m) if case.structure.swap else (case.tile_m, case.tile_n)
    )
    held = height * width / (LANES * case.warps)
    side = np.where(held >= 16, 4, np.where(held >= 4, 2, 1))
    threads = np.clip(width // side, 1, LANES * case.warps)
    lanes = np.minimum(threads, LANES)
    columns = np.maximum(width / threads, side)
    rows = np.maximum(height * threads / (LANES * case.warps), side)
    first_k_major, second_k_major = _k_major(case)
    return PlainDot(
        rows,
        columns,
        _operand(rows, LANES / lanes, side, k_major=first_k_major),
        _operand(columns, lanes, side, k_major=second_k_major),
    )


def _k_major(case: Case) -> tuple[bool, bool]:
    """Whether K runs along the rows of the dot's first and of its second operand."""
    s = case.structure
    return (s.b_k_major, s.a_k_major) if s.swap else (s.a_k_major, s.b_k_major)


def _operand(extent: Any, lanes: Any, side: Any, *, k_major: bool) -> Operand:
    if k_major:
        return Operand(extent / WIDE, np.where(lanes > 2, COLLISION, 1.0) * lanes)
    return Operand(extent / side, np.maximum(lanes * side * ELEMENT_BYTES / BANKS_BYTES, 1.0))


def shared_clocks(case: Case) -> Any:
    """Clocks for which one turn of the K loop occupies shared memory with reads."""
    dot = plain_dot(case)
    visits = dot.first.loads * dot.first.visits + dot.second.loads * dot.second.visits
    return case.warps * case.tile_k * visits


def issue_clocks(case: Case) -> Any:
    """Clocks in which the four quarters of a multiprocessor issue one turn of the K loop."""
    dot = plain_dot(case)
    loads = (dot.first.loads + dot.second.loads) * case.tile_k
    adds = dot.rows * dot.columns * case.tile_k
    return case.warps / QUARTERS * (adds + loads + BESIDE) / _issue_rate(case)


def _issue_rate(case: Case) -> Any:
    """Share of issue slots that the busiest multiprocessor fills.

    Programs come in rounds of as many as are resident; the last round may hold fewer, with too
    few warps to hide the latency of each other's loads.
    """
    together = np.minimum(resident(case), queued(case))
    rounds, last = queued(case) // together, queued(case) % together
    full = rounds * together / _rate_of(together * case.warps)
    rest = last / _rate_of(np.maximum(last, 1) * case.warps)
    rate = queued(case) / (full + rest)
    return rate * (FIRST_K_MAJOR_RATE if _k_major(case)[0] else 1.0)


def _rate_of(warps: Any) -> Any:
    return np.minimum(ISSUE_RATE, WARP_ISSUE_RATE * warps)
