"""The terms of the time of a contraction, from its choices in closed form. Ranks nothing.

A roofline with waves: what the busiest multiprocessor has to do, what L2 and memory have to
move, what latency leaves exposed, what launches cost, and all of them joined. Constants and
their sources are in ``machine``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model import machine as rates
from cost_model.machine import Machine, machine
from cost_model.plain_dot import issue_clocks, shared_clocks
from cost_model.stream import work
from cost_model.traffic import (
    TRANSPOSED_READS,
    Column,
    block_bytes,
    contiguous_bytes,
    hbm_bytes,
    in_flight_bytes,
    l2_bytes,
    output_bytes,
    peeled_elements,
    programs,
    queued,
    resident,
    rest_bytes,
    shared_block_bytes,
    split_bytes,
)
from search_space.case import Case, ceil_div, first_operand_bytes
from search_space.rules.peel import NARROW_REST, WHOLE

#: How sharply the larger of two overlapping times hides the smaller: the norm that joins them.
OVERLAP = 8.0
#: The same for what one program after another takes and what all of them share: few turns hide few
#: loads of the next block, this many more of them sharpen it by 1 (measured on an H200, 2026-12:
#: blocks of 1 or 2 turns, 16 us of traffic and 13 us of work beside it, take 18.5 to 22 us).
SHORT_OVERLAP, TURNS_TO_OVERLAP = 4.0, 16.0
#: Lines of L2 that a row of a box takes which begins within one, over those that it fills.
STRADDLING = 2.0
#: How much later than the mean the last program of a single wave ends when memory is the limit.
TAIL = 0.15
#: Share of a store that a persistent kernel still waits for while its next loads arrive.
PERSISTENT_STORE = 0.6
#: A row of a block this long costs memory half of its rate (sectors of 32 bytes, pages); rows
#: beyond the second gain nothing more.
HALF_RATE_ROW_BYTES = 8.0
FULL_RATE_ROW_BYTES = 256.0
#: Share of a turn's waits that the other programs of a multiprocessor do not fill.
EXPOSED = 0.1
#: Bytes that a block's columns must have side by side for stores to fill their sectors and lines.
STORED_RUN_BYTES = 64.0
#: Time that one more slice of a store costs, microseconds, and a program's last write.
PART_US = 0.08
DRAIN_US = 0.35
#: Time that a pass of plain loads and stores takes beside moving its bytes, microseconds.
PASS_US = 0.85
#: Rate of packing over that of a copy: rows that need it are read in narrow pieces.
PACKING = 0.7
#: The same for plain dots' operands, which are transposed in whole blocks (measured: 12 us for
#: 16.8 MB).
TURNING = 0.8
#: Time for which the start of a program occupies a multiprocessor, microseconds.
STARTED_US = 0.12
#: Time from a program's last store to its knowing whether it is the last, and from there to its
#: first loads, microseconds: two turns to L2.
ARRIVAL_US = 1.5
#: The same for each element of its block: shares are written and read again (measured: blocks of
#: 8192 and 16384 elements take 5 and 10 us more than their traffic, with 2 to 4 shares).
ARRIVAL_AREA_US = 6e-4
#: What L2 moves for an element that is loaded apart, bytes.
SECTOR_BYTES = 32.0
#: Rate of the dots of a block of 128 x 128, alone on its multiprocessor, over their peak.
WIDE_REST_RATE = 0.8
#: Time from a block of a persistent kernel to its next (measured on an H200, 2026-12: 3072 blocks
#: of 64 x 128 take 1 to 2 us more than 1536 of 128 x 128, 12 more to a multiprocessor).
ADVANCE_US = 0.1
#: Time that a persistent kernel takes to set out on its walk, microseconds.
WALK_US = 0.15


@dataclass(frozen=True, slots=True)
class Times:
    """The terms of a prediction, microseconds, one value per candidate.

    ``compute`` is the dots of the busiest multiprocessor, ``multiprocessor`` all it does with
    latency exposed; ``l2`` and ``hbm`` are traffic of the whole device; ``join`` is the passes
    around the main kernel, packing and joining; ``launch`` the launches.
    """

    compute_us: Column
    multiprocessor_us: Column
    l2_us: Column
    hbm_us: Column
    join_us: Column
    launch_us: Column
    total_us: Column


def times(case: Case, rows: int) -> Times:
    """Return the terms of the prediction, each an array [rows]."""
    unit = machine(case.structure, case.target)
    if case.structure.streams:
        return _stream_times(case, rows, unit)
    busy, turn = _turn_us(case, unit)
    start = rates.START_US[case.structure.load] + _latency_us(case, unit) + _load_us(case, unit)
    store = _store_us(case, unit)
    compute = queued(case) * case.iterations * (busy + EXPOSED * (turn - busy))
    occupied = compute + queued(case) * _between_us(case, store)
    alone = _multiprocessor_us(case, unit, turn, start, store)
    traffic = 1e6 * l2_bytes(case) / unit.l2_bytes_per_s
    memory = _hbm_us(case, unit)
    join, launch = _join_us(case, unit), _launch_us(case, unit)
    shared = _either(traffic, memory) + start + DRAIN_US
    total = _in_waves(case, alone, occupied, shared) + join + launch
    terms = (compute, np.maximum(alone, occupied), traffic, memory, join, launch, total)
    return Times(*(np.broadcast_to(np.asarray(term, float), (rows,)) for term in terms))


def _stream_times(case: Case, rows: int, unit: Machine) -> Times:
    """Return the terms where blocks are not multiplied: ``compute`` is what lanes issue."""
    part = work(case, unit)
    join, launch = _join_us(case, unit), _launch_us(case, unit)
    busiest = np.maximum(part.issue_us, part.alone_us)
    shared = _either(part.l2_us, part.hbm_us) + rates.START_US["pointer"] + DRAIN_US
    total = _either(busiest + rates.START_US["pointer"], shared) + join + launch
    terms = (part.issue_us, busiest, part.l2_us, part.hbm_us, join, launch, total)
    return Times(*(np.broadcast_to(np.asarray(term, float), (rows,)) for term in terms))


def _between_us(case: Case, store: Any) -> Any:
    """Time that a block occupies its multiprocessor beside its dots: its program's start and its
    store, of which a persistent program has neither the one nor the whole of the other."""
    return PERSISTENT_STORE * store if case.structure.persistent else STARTED_US + store


def _in_waves(case: Case, alone: Any, occupied: Any, shared: Any) -> Any:
    """Join what one program after another takes, what a multiprocessor does and what all share.

    The last wave holds what is left over: however little all of it moves, it takes as long as one
    program does, while the waves before it are bound by the larger of the two.
    """
    rounds, together = _rounds(case), np.minimum(resident(case), queued(case))
    in_place, of_work, of_all = (
        (rounds - 1) / rounds,
        (rounds - 1) * together / queued(case),
        (rounds - 1) * together * case.target.multiprocessors / programs(case),
    )
    before = _either(
        np.maximum(in_place * alone, of_work * occupied), of_all * shared, _sharpness(case)
    )
    alone, occupied = (1 - in_place) * alone, (1 - of_work) * occupied
    return before + _either(np.maximum(alone, occupied), (1 - of_all) * shared, _sharpness(case))


def _sharpness(case: Case) -> Any:
    """How sharply a block's own time hides behind shared ones, or these behind it."""
    if not case.structure.dot:
        return OVERLAP
    return np.minimum(SHORT_OVERLAP + case.iterations / TURNS_TO_OVERLAP, OVERLAP)


def _either(a: Any, b: Any, sharpness: Any = OVERLAP) -> Any:
    return (a**sharpness + b**sharpness) ** (1 / sharpness)


def _turn_us(case: Case, unit: Machine) -> tuple[Any, Any]:
    """Time of one turn of the K loop: what occupies the multiprocessor, and with waits.

    ``busy = (max(dot, shared memory) + issue) / sustained``. A turn also waits for its loads: with
    ``stages - 1`` of them in flight each has that many turns to arrive; with none, it waits
    for the whole latency.
    """
    s = case.structure
    dot, shared = _dot_clocks(case, unit)
    slowdown = rates.POINTER_SLOWDOWN if s.load == "pointer" else 1.0
    clock_us = 1e6 / unit.clock_hz
    occupied = np.maximum(dot, shared) + rates.ISSUE_CLOCKS
    busy = (1.0 if case.plain else slowdown / unit.sustained) * occupied * clock_us
    load = _load_us(case, unit)
    overlapped = np.maximum(case.warps / 4, 1)
    drained = rates.DRAINED_CLOCKS * (case.wgmma & (case.stages == 2))
    tested = rates.MASKED_CLOCKS * s.masked
    beside = (rates.TURN_CLOCKS[s.load] + tested + drained) / overlapped * clock_us
    if s.registers:
        beside = beside + _filling_clocks(case) * clock_us
    latency = _latency_us(case, unit)
    chain = _chain_clocks(case) * clock_us
    waiting = np.maximum(np.maximum(busy, load), latency / np.maximum(_ahead(case), 1))
    waiting = np.maximum(waiting, chain)
    turn = np.where(_ahead(case) < 1, np.maximum(busy, chain) + load + latency, waiting) + beside
    return np.maximum(busy, load), turn


def _filling_clocks(case: Case) -> Any:
    """Clocks of a turn in which the program's first operand is read into registers: its dots
    have ended before, so that nothing but another program hides them."""
    read = TRANSPOSED_READS * first_operand_bytes(case)
    return read / rates.SHARED_BYTES_PER_CLOCK + rates.FILLING_CLOCKS


def _chain_clocks(case: Case) -> Any:
    """Clocks of the dots of one turn that wait for each other: each adds to what the one before
    left, a step of K at a time."""
    if not case.structure.dot or case.plain:
        return 0.0
    steps = case.tile_k * max(case.a_bytes, case.b_bytes) / rates.STEP_BYTES
    return np.where(case.wgmma, 0.0, rates.MMA_LATENCY_CLOCKS * steps)


def _dot_clocks(case: Case, unit: Machine) -> tuple[Any, Any]:
    """Clocks of the dot of one turn, and those for which it occupies shared memory."""
    if not case.structure.dot:
        points = 1.0 * case.tile_m * case.tile_n * case.tile_k
        return rates.POINT_INSTRUCTIONS * points / rates.LANES, 0.0 * points
    if case.plain:
        written = block_bytes(case) / rates.SHARED_BYTES_PER_CLOCK
        return issue_clocks(case), shared_clocks(case) + written
    dot = 2.0 * case.tile_m * case.tile_n * case.tile_k / unit.operations_per_clock
    return dot / _dot_rate(case), shared_block_bytes(case) / rates.SHARED_BYTES_PER_CLOCK


def _dot_rate(case: Case) -> Any:
    """Rate of the dot over the peak of its arithmetic."""
    s = case.structure
    if s.arithmetic == "float32" or s.arithmetic not in case.target.operations_per_s:
        held = case.tile_m * case.tile_n / (32 * case.warps)
        return rates.PLAIN_DOT_RATE * held / (held + rates.PLAIN_DOT_HALF)
    narrow = case.a_bytes != 2 and not s.registers
    crossed = narrow and not (s.a_k_major and s.b_k_major)
    rate = rates.THROUGH_REGISTERS_RATE if crossed else 1.0
    if "wgmma" not in case.target.features:
        return rate
    return rate * np.where(case.wgmma, 1.0, rates.MMA_SYNC_RATE)


def _load_us(case: Case, unit: Machine) -> Any:
    """Time to bring one turn's operands in: the port's rate, less for narrow copies.

    The copy engine takes one row of a box after another, short ones no faster. A copy of 16 bytes a
    thread fills the port. Narrower rows use a share of it; below 4 bytes there is no asynchronous
    copy, and values pass through registers on their way.
    """
    s = case.structure
    port = 1e-6 * rates.L2_PORT_BYTES_PER_CLOCK * unit.clock_hz
    if s.load == "descriptor":
        a_rows, b_rows = (1 + (STRADDLING - 1) * x for x in (s.a_straddles, s.b_straddles))
        a_row = (case.tile_k if s.a_k_major else case.tile_m) * case.a_bytes
        b_row = (case.tile_k if s.b_k_major else case.tile_n) * case.b_bytes
        a_block = 1.0 * case.tile_k * case.tile_m * case.a_bytes * a_rows * _short(a_row)
        b_block = 1.0 * case.tile_k * case.tile_n * case.b_bytes * b_rows * _short(b_row)
        return (a_block + b_block) / port
    a_width = SECTOR_BYTES / case.a_bytes if s.a_scattered else _narrow(s.a_row_bytes)
    b_width = SECTOR_BYTES / case.b_bytes if s.b_scattered else _narrow(s.b_row_bytes)
    a_block = case.tile_k * case.tile_m * case.a_bytes * a_width
    b_block = case.tile_k * case.tile_n * case.b_bytes * b_width
    return (a_block + b_block) / port


def _short(row_bytes: Any) -> Any:
    """How much longer the copy engine takes for a box of short rows than for one of whole lines."""
    return np.maximum(1.0, rates.BOX_ROW_BYTES / row_bytes)


def _narrow(row_bytes: int) -> float:
    return 16.0 / row_bytes if row_bytes >= 4 else 12.0 / row_bytes


def _ahead(case: Case) -> Any:
    """Count the loads in flight beside the turn that computes; none if copies are synchronous.

    An operand that passes through registers has one buffer less to arrive in.
    A plain dot starts the next load once it has read its own block: two stages are one buffer.
    """
    s = case.structure
    narrow = min(s.a_row_bytes, s.b_row_bytes) < 4 or s.a_scattered or s.b_scattered
    if s.load == "pointer" and narrow:
        return np.minimum(case.stages - 1, 0.5)
    buffers_less = 1.0 if case.plain else 0.5 * s.registers
    return np.maximum(case.stages - 1 - buffers_less, 0)


def _latency_us(case: Case, unit: Machine) -> Any:
    """Time of one load: from L2, or from memory for the share that comes from there."""
    from_memory = np.minimum(hbm_bytes(case, unit.l2_kept_bytes) / l2_bytes(case), 1.0)
    return rates.L2_LATENCY_US[case.structure.load] + from_memory * rates.MEMORY_LATENCY_US


def _store_us(case: Case, unit: Machine) -> Any:
    """Time to evaluate the epilogue of one block and write it, in slices that overlap."""
    s = case.structure
    elements = 1.0 * case.tile_m * case.tile_n
    width = rates.L2_PORT_BYTES_PER_CLOCK * (1.0 if s.store == "descriptor" else 0.7)
    width = (
        width
        * min(1.0, (s.output_row_bytes + 4) / 20)
        * (rates.ATOMIC_RATE if s.split == "atomic" else 1.0)
    )
    run = np.minimum(1.0, case.run_n * case.stored_bytes / STORED_RUN_BYTES)
    write = elements * case.stored_bytes / width / run
    convert = elements * case.stored_bytes / rates.SHARED_BYTES_PER_CLOCK
    function = elements * s.epilogue_calls * rates.EPILOGUE_CLOCKS / 128
    clocks = write * (0.5 + 0.5 / case.parts) + convert + function
    return clocks * 1e6 / unit.clock_hz + PART_US * (case.parts - 1)


def _multiprocessor_us(case: Case, unit: Machine, turn: Any, start: Any, store: Any) -> Any:
    """Time of the busiest multiprocessor, programs one after another in each of its places.

    A persistent kernel starts once and hides part of its stores behind the next loads.
    """
    rounds, run = _rounds(case), case.iterations * turn
    if case.structure.persistent:
        hidden = (rounds - 1) * (1 - PERSISTENT_STORE) * store
        between = _advance_us(case, unit)
        return start + WALK_US + rounds * (run + store + between) - hidden + DRAIN_US
    return rounds * (start + run + store) + DRAIN_US


def _advance_us(case: Case, unit: Machine) -> Any:
    """Time from one block of a persistent kernel to its next, beside the store: its dots drain and
    its place is computed; with pointers its threads issue the copies of a turn, which nothing
    hides."""
    copies = _load_us(case, unit) if case.structure.load == "pointer" else 0.0
    return ADVANCE_US + copies


def _rounds(case: Case) -> Any:
    """How many programs run one after another in a place of the busiest multiprocessor."""
    return ceil_div(queued(case), np.minimum(resident(case), queued(case)))


def _hbm_us(case: Case, unit: Machine) -> Any:
    """Time of memory traffic: at the sustained rate, or what the bytes in flight allow.

    Loads come in rows of blocks and wait in rings; stores do neither.
    """
    row = np.minimum(contiguous_bytes(case), FULL_RATE_ROW_BYTES)
    rate = unit.memory_bytes_per_s * row / (row + HALF_RATE_ROW_BYTES)
    by_latency = in_flight_bytes(case) / (
        1e-6 * (rates.L2_LATENCY_US[case.structure.load] + rates.MEMORY_LATENCY_US)
    )
    stored = output_bytes(case)
    loaded = hbm_bytes(case, unit.l2_kept_bytes) - stored
    paced = np.sqrt(rate**-2.0 + by_latency**-2.0)
    moved = loaded * paced + stored / unit.memory_bytes_per_s
    return 1e6 * moved * (1 + TAIL / _rounds(case))


def _join_us(case: Case, unit: Machine) -> Any:
    """Time of the passes around the main kernel: packing before it, joining parts or computing
    what was peeled after it."""
    return _packing_us(case, unit) + _joining_us(case, unit) + _rest_us(case, unit)


def _rest_us(case: Case, unit: Machine) -> float:
    """Time of the nest of what was peeled: its traffic from memory at the rate of a kernel of one
    wave, or its dots, and the latency of its first loads and last stores.

    Few rows are multiplied by mma.sync on all multiprocessors; more of them in whole blocks, by
    the busiest.
    """
    s = case.structure
    if s.peeled == "none":
        return 0.0
    if s.rest <= NARROW_REST:
        elements = s.batch * peeled_elements(case) / case.target.multiprocessors
        rate = rates.MMA_SYNC_RATE
    else:
        across = s.n if s.peeled == "m" else s.m
        blocks = s.batch * ceil_div(s.rest, WHOLE) * ceil_div(across, WHOLE)
        elements = float(ceil_div(blocks, case.target.multiprocessors) * WHOLE**2)
        rate = WIDE_REST_RATE
    operations = 2.0 * elements * s.k
    rate *= unit.operations_per_clock * unit.clock_hz
    memory = rest_bytes(case) * (1 + TAIL) / unit.memory_bytes_per_s
    ends = rates.START_US[s.load] + rates.L2_LATENCY_US[s.load] + rates.MEMORY_LATENCY_US
    return 1e6 * max(memory, operations / rate) + ends + DRAIN_US


def _packing_us(case: Case, unit: Machine) -> float:
    """Time to copy operands into another layout: through memory, one pass an operand."""
    s = case.structure
    rate = TURNING if case.plain else PACKING
    return 1e6 * s.packed_bytes / (rate * unit.memory_bytes_per_s) + s.packs * PASS_US


def _joining_us(case: Case, unit: Machine) -> Any:
    """Time to join the parts of a split reduction: sums through L2, or memory if they are many."""
    if case.structure.split == "none":
        return 0.0
    if case.structure.split == "counter":
        return _arrival_us(case, unit)
    moved = split_bytes(case)
    fits = moved < unit.l2_kept_bytes
    rate = np.where(fits, unit.l2_bytes_per_s / 2, unit.memory_bytes_per_s)
    return 1e6 * (moved + output_bytes(case)) / rate + PASS_US


def _arrival_us(case: Case, unit: Machine) -> Any:
    """Time that the last program of a point takes to join all shares by itself."""
    area = 1.0 * case.tile_m * case.tile_n
    read = 4.0 * case.split * area
    moved = 1e6 * read / (rates.L2_PORT_BYTES_PER_CLOCK * unit.clock_hz)
    return moved + ARRIVAL_AREA_US * area + ARRIVAL_US


def _launch_us(case: Case, unit: Machine) -> float:
    s = case.structure
    kernels = {"none": 1, "counter": 1, "workspace": 2, "atomic": 3}[s.split] + s.packs
    kernels += s.peeled != "none"
    return unit.launch_us * (1 + rates.NEXT_KERNEL * (kernels - 1))
