"""Bytes that a contraction moves at each level, from choices alone, for whole populations.

Arguments are ``case.Case`` with columns (arrays [candidates]); results are float arrays or
broadcast to one. Knows rates of no device, only its sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search_space.case import WGMMA_ROWS, Case, ceil_div, programs_per_multiprocessor
from search_space.dtype import size_bytes

#: Share of its time for which a program without a dot has its loads in flight.
UNSTAGED_TURNS = 0.9
#: Bytes that a thread asks for before it needs the first of them, where a turn loads several
#: blocks: as many as the compiler finds registers for.
AHEAD_BYTES = 64.0
#: What a byte brought into shared memory takes of its rate over a byte read by the dots.
#: Measured on an H200: 128 x 128 blocks of float16, two programs to a multiprocessor, multiply as
#: fast as 128 x 256 (65536 x 1024 x 1024: 200.4 us against 200.1), so they cannot be bound by it.
WRITTEN = 0.6
#: Turns of shared memory to read a 32-bit operand across its rows into registers: two lanes of
#: a warp meet in each bank (read off the swizzle that Triton 3.6 gives a descriptor's block).
TRANSPOSED_READS = 2

Column = NDArray[np.float64]


def resident(case: Case) -> Any:
    """Programs that share a multiprocessor: what fits, or what a persistent kernel starts."""
    fitting = np.maximum(programs_per_multiprocessor(case), 1)
    return np.minimum(case.ctas, fitting) if case.structure.persistent else fitting


def programs(case: Case) -> Any:
    """Blocks of work: ``tiles * split``."""
    return case.tiles * case.split


def queued(case: Case) -> Any:
    """Blocks of work for the busiest multiprocessor: ``ceil(programs / multiprocessors)``."""
    return ceil_div(programs(case), case.target.multiprocessors)


def block_bytes(case: Case) -> Column:
    """Bytes of the operands of one turn of the K loop: ``tile_k * (tile_m * a + tile_n * b)``, or
    those of the blocks that are loaded where none are multiplied."""
    if case.structure.streams:
        return _streamed_bytes(case)
    return np.asarray(1.0 * case.tile_k * (case.tile_m * case.a_bytes + case.tile_n * case.b_bytes))


def _streamed_bytes(case: Case, most: float = math.inf) -> Column:
    """Bytes of the blocks that a turn loads; of the blocks of one tensor ``most`` for each thread,
    if one alone is not more."""
    tiles = {side: getattr(case, f"tile_{side}") for side in "mnk"}
    threads = case.target.warp_size * case.warps
    total: Any = np.zeros(np.shape(case.tile_m))
    for stream in case.structure.streams:
        block = stream.element_bytes * math.prod(1.0 * tiles[side] for side in stream.along)
        total = total + np.minimum(stream.loads * block, np.maximum(block, most * threads))
    return np.asarray(total)


def l2_bytes(case: Case) -> Column:
    """Bytes that all programs load through L2: every block again for every block of output."""
    return np.asarray(programs(case) * case.iterations * block_bytes(case))


def shared_block_bytes(case: Case) -> Column:
    """Bytes through shared memory in one turn of the K loop, as reads: what is written once, and
    what the dots read.

    Four warps issue one wgmma for 64 rows, which reads those rows of the first operand and its
    columns of the second. For mma.sync both are read into the registers of a grid of warps. A
    first operand that passes through registers is read once, against its rows.
    """
    s = case.structure
    a_block = 1.0 * case.tile_k * case.tile_m * case.a_bytes
    b_block = 1.0 * case.tile_k * case.tile_n * case.b_bytes
    first, second = (b_block, a_block) if s.swap else (a_block, b_block)
    columns = case.tile_m if s.swap else case.tile_n
    groups, slabs = np.maximum(case.warps // 4, 1), np.maximum(case.rows // WGMMA_ROWS, 1)
    warps_down = np.clip(np.sqrt(case.warps * case.rows / columns), 1, case.rows / 16)
    warps_down = np.minimum(warps_down, case.warps)
    reads_first = np.where(case.wgmma, np.maximum(groups // slabs, 1), case.warps / warps_down)
    reads_second = np.where(case.wgmma, slabs, warps_down)
    reads_first = np.where(s.registers, TRANSPOSED_READS, reads_first)
    written = WRITTEN * (first + second)
    return np.asarray(written + reads_first * first + reads_second * second)


def hbm_bytes(case: Case, l2_kept_bytes: float) -> Column:
    """Bytes between memory and L2, floored at the compulsory ones.

    The programs that run together cover ``rows`` x ``columns`` blocks. Along a band of ``group``
    rows of blocks, a is read once if the band stays in L2, else once per step; b is read once
    if all of it stays beside the band, else once per band. A block of L2 too small by half
    misses half. What windows share of an operand counts once.
    """
    s = case.structure
    if s.streams:
        once = sum(stream.elements * stream.element_bytes for stream in s.streams)
        return np.asarray(np.zeros(np.shape(case.tile_m)) + once + output_bytes(case))
    rows = np.minimum(case.group, case.tiles_m)
    together = case.target.multiprocessors * resident(case)
    wide = np.clip(together // (rows * case.split), 1, case.tiles_n)
    bands, steps = ceil_div(case.tiles_m, rows), ceil_div(case.tiles_n, wide)
    a_once = float(case.a_elements * case.a_bytes) / s.batch
    b_once = float(case.b_elements * case.b_bytes) / s.batch
    band_bytes = rows * case.tile_m * a_once / s.m
    a_missed = _missed(band_bytes + wide * case.tile_n * b_once / s.n, l2_kept_bytes)
    b_missed = _missed(band_bytes + b_once, l2_kept_bytes)
    loaded = a_once * (1 + (steps - 1) * a_missed) + b_once * (1 + (bands - 1) * b_missed)
    return np.asarray(s.batch * loaded + output_bytes(case))


def output_bytes(case: Case) -> float:
    """Bytes of the output written once and of what the epilogue reads."""
    s = case.structure
    return float(s.batch * s.m * s.n * s.copies * size_bytes(s.output_dtype) + s.epilogue_bytes)


def peeled_elements(case: Case) -> float:
    """Elements of one batch of the output that the nest of the rest computes, in blocks of at
    least 16 of the peeled axis."""
    s = case.structure
    across = s.n if s.peeled == "m" else s.m
    return float(across * max(16, s.rest)) if s.peeled != "none" else 0.0


def rest_bytes(case: Case) -> float:
    """Bytes that the nest of the rest moves: one operand whole, its share of the other and of
    the output."""
    s = case.structure
    if s.peeled == "none":
        return 0.0
    across, whole, cut = (
        (s.n, case.b_bytes, case.a_bytes) if s.peeled == "m" else (s.m, case.a_bytes, case.b_bytes)
    )
    stored = across * s.rest * size_bytes(s.output_dtype)
    return float(s.batch * (s.k * (across * whole + s.rest * cut) + stored))


def split_bytes(case: Case) -> Column:
    """Bytes of float32 partial sums written and read again by the pass that joins them.

    A workspace holds a slot per part; atomics clear, add to and read a single one.
    """
    s = case.structure
    one = 4.0 * s.batch * s.m * s.n * s.copies
    if s.split == "none":
        return np.zeros(np.shape(case.tile_m))
    slots = case.split + 2.0 if s.split == "atomic" else 2.0 * case.split
    return np.asarray(one * slots)


def in_flight_bytes(case: Case) -> Column:
    """Bytes asked for and not yet there, all multiprocessors together, in the steady state.

    A dot waits for its buffers one by one; without one a program asks again as soon as it has
    added up what came.
    """
    active = np.minimum(programs(case), case.target.multiprocessors)
    beside = np.minimum(resident(case), queued(case))
    turns = np.maximum(case.stages - 1, 0.5) if case.structure.dot else UNSTAGED_TURNS
    if case.structure.streams:
        return np.asarray(active * beside * turns * _streamed_bytes(case, AHEAD_BYTES))
    return np.asarray(active * beside * turns * block_bytes(case))


def contiguous_bytes(case: Case) -> Column:
    """Bytes in a row of a block as stored, the shorter of a and b."""
    s = case.structure
    if s.streams:
        size = min(stream.element_bytes for stream in s.streams)
        return np.asarray(1.0 * getattr(case, f"tile_{s.lanes}") * size)
    a_row = (case.tile_k if s.a_k_major else case.tile_m) * case.a_bytes
    b_row = (case.tile_k if s.b_k_major else case.tile_n) * case.b_bytes
    return np.asarray(1.0 * np.minimum(a_row, b_row))


def padding_efficiency(case: Case) -> Column:
    """Divide useful multiply-adds by computed ones: ``m*n*k / (whole blocks of each)``."""
    s = case.structure
    covered = case.tiles_m * case.tile_m * case.tiles_n * case.tile_n * case.blocks_k * case.tile_k
    return np.asarray(float(s.m * s.n * s.k) / covered)


def _missed(needed_bytes: Any, kept_bytes: float) -> Any:
    return 1.0 - np.minimum(kept_bytes / needed_bytes, 1.0)
