"""A candidate with what bounds it, and what it takes of a target: shared memory, registers.

Works from choices, ``Sketch.structure`` and the target alone: replays no nest, renders nothing.
All arithmetic means the same for an integer and for a whole column of integers (one per candidate);
no array library is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from search_space.dtype import size_bytes
from search_space.sketch import Side, Sketch, Structure
from search_space.target import Target

#: An int, or an integer array with one value per candidate.
Number = Any

#: What a choice is worth in a sketch that does not leave it open.
DEFAULTS: dict[str, int] = {
    "tile_m": 16,
    "tile_n": 16,
    "tile_k": 16,
    "stages": 1,
    "warps": 4,
    "group": 1,
    "parts": 1,
    "split": 1,
    "ctas": 1,
}

#: The same of the sides of a block that is not multiplied: it need not have them.
PLAIN_DEFAULTS = {"tile_m": 1, "tile_n": 1, "tile_k": 1}

#: Rows of one wgmma instruction; four warps issue it together (PTX ISA, wgmma.mma_async).
WGMMA_ROWS = 64
#: Registers beside the accumulators: 26 with descriptors, 40 to 90 with pointers (measured on
#: kernels that Triton 3.6 compiled for sm_90).
REGISTERS_BESIDE = {"descriptor": 26, "pointer": 60}
#: Registers beside the sums and the loaded blocks where there is no dot (sm_90, Triton 3.6).
REGISTERS_OF_ROWS = 20
#: Registers of a plain dot beside as many again as its accumulators, and the most it can do with:
#: 32 accumulators took 96, 64 took 158 to 207, and 128 took 208 to 255 with at most a few spilled.
PLAIN_DOT_REGISTERS, PLAIN_DOT_MOST_REGISTERS = 32, 127
#: Programs that a multiprocessor of sm_80 or sm_90 holds at the most (CUDA programming guide).
RESIDENT_PROGRAMS = 32
#: Loads of single elements, squared, that take one register for each element of a thread.
SINGLE_LOADS = 110
#: Shared memory that the hardware keeps for itself per resident block on sm_80 and later.
RESERVED_SHARED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate, or a population as columns, with what bounds it.

    ``least`` holds the smallest value of each open choice: rules against waste never refuse it,
    so that small extents keep a legal candidate.
    """

    tile_m: Number
    tile_n: Number
    tile_k: Number
    stages: Number
    warps: Number
    group: Number
    parts: Number
    split: Number
    ctas: Number
    structure: Structure
    target: Target
    least: Mapping[str, int]
    #: Blocks along M and along N.
    tiles_m: Number
    tiles_n: Number
    #: Columns of the block that lie side by side as stored.
    run_n: Number

    @property
    def a_bytes(self) -> int:
        """Bytes of one element of operand a."""
        return size_bytes(self.structure.a_dtype)

    @property
    def b_bytes(self) -> int:
        """Bytes of one element of operand b."""
        return size_bytes(self.structure.b_dtype)

    @property
    def stored_bytes(self) -> int:
        """Bytes of one element as the main kernel stores it (float32 partial sums if split)."""
        return 4 if self.structure.split != "none" else size_bytes(self.structure.output_dtype)

    @property
    def tiles(self) -> Number:
        """Blocks of the output, over all batches."""
        return self.structure.batch * self.tiles_m * self.tiles_n

    @property
    def blocks_k(self) -> Number:
        """Blocks along the whole of K, over all taps."""
        return self.structure.taps * ceil_div(self.extent_k, self.tile_k)

    @property
    def extent_k(self) -> int:
        """What the blocks along K of one tap cover."""
        return self.structure.k // self.structure.taps

    @property
    def a_elements(self) -> int:
        """Elements of operand a, over all batches."""
        s = self.structure
        return s.a_elements or s.batch * s.m * s.k

    @property
    def b_elements(self) -> int:
        """Elements of operand b, over all batches."""
        s = self.structure
        return s.b_elements or s.batch * s.n * s.k

    @property
    def iterations(self) -> Number:
        """Blocks along K that one program walks through, over all taps."""
        return self.structure.taps * self.turns

    @property
    def turns(self) -> Number:
        """Blocks along K that one program walks through for each tap."""
        return ceil_div(ceil_div(self.extent_k, self.tile_k), self.split)

    @property
    def rows(self) -> Number:
        """Rows of the dot's result: ``tile_m``, or ``tile_n`` where it is computed transposed."""
        return self.tile_n if self.structure.swap else self.tile_m

    @property
    def wgmma(self) -> Number:
        """Whether the dot becomes wgmma: 64 rows and whole groups of four warps."""
        return self.wgmma_able & (self.rows >= WGMMA_ROWS) & (self.warps % 4 == 0)

    @property
    def wgmma_able(self) -> bool:
        """Whether the target has wgmma for this arithmetic at all."""
        arithmetic, target = self.structure.arithmetic, self.target
        has_rate = arithmetic in target.operations_per_s and arithmetic != "float32"
        return has_rate and "wgmma" in target.features

    @property
    def plain(self) -> bool:
        """Whether the dot is written out as multiply-adds of single lanes."""
        structure = self.structure
        is_cuda = self.target.backend == "cuda"
        return structure.dot and structure.arithmetic == "float32" and is_cuda


def case_of(sketch: Sketch, choices: Mapping[str, Number], target: Target) -> Case:
    """Pair ``choices`` (ints, or equally long columns) with what bounds them."""
    least = {choice.name: min(choice.domain) for choice in sketch.choices}
    return case_for(sketch.structure, choices, target, least)


def case_for(
    structure: Structure,
    choices: Mapping[str, Number],
    target: Target,
    least: Mapping[str, int] = MappingProxyType({}),
) -> Case:
    """Return the case of ``choices``; a choice that is not among them has its default."""
    defaults = DEFAULTS if structure.dot else DEFAULTS | PLAIN_DEFAULTS
    held = {name: choices.get(name, default) for name, default in defaults.items()}
    least, blocks = dict(least), dict[str, Number]()
    for name, sides, extent in (
        ("m", structure.m_sides, structure.m),
        ("n", structure.n_sides, structure.n),
    ):
        tile = f"tile_{name}"
        if sides:
            held[tile] = math.prod(choices[side.choice] for side in sides)
            least[tile] = math.prod(least.get(side.choice, 1) for side in sides)
        tiles = {**choices, tile: held[tile]}
        blocks[f"tiles_{name}"] = math.prod(
            ceil_div(side.extent, tiles[side.choice]) for side in sides or (Side(tile, extent),)
        )
    inner = structure.n_sides[-1].choice if structure.n_sides else "tile_n"
    blocks["run_n"] = {**held, **choices}[inner]
    return Case(**held, **blocks, structure=structure, target=target, least=least)


def columns(sketch: Sketch, matrix: Any) -> dict[str, Any]:
    """Name the columns of a matrix of choices [candidates, choices] in ``sketch.names`` order."""
    return {name: matrix[:, n] for n, name in enumerate(sketch.names)}


def shared_bytes(case: Case) -> Number:
    """Estimate the shared memory of one program, bytes.

    The ring of loads in flight takes ``buffers * tile_k * (tile_m * a + tile_n * b)``; wgmma
    reads a buffer while the next is consumed, so it needs one more than mma.sync. The block is
    stored through shared memory in ``parts`` slices, together with the slices of what a
    descriptor brings in for the epilogue: beside the ring if a persistent kernel
    keeps loading meanwhile, else in its place. Each load in flight has a 16-byte barrier. A first
    operand that passes through registers has left its buffer before wgmma begins. Within
    2 KiB of what Triton 3.6 takes for sm_90 on nine in ten random candidates, seldom below it.
    """
    if not case.structure.dot:
        return 0 * case.tile_m
    ring = (
        ring_buffers(case) * case.tile_k * (case.tile_m * case.a_bytes + case.tile_n * case.b_bytes)
    )
    ring = ring - case.structure.registers * (case.stages > 1) * first_operand_bytes(case)
    block = ceil_div(case.tile_m * case.tile_n * case.stored_bytes, case.parts)
    store = block * (1 + case.structure.block_inputs)
    both = ring + store if case.structure.persistent else larger(ring, store)
    return both + 16 * case.stages


def first_operand_bytes(case: Case) -> Number:
    """Return the bytes of the block that is the first operand of the dot."""
    return case.rows * case.tile_k * (case.b_bytes if case.structure.swap else case.a_bytes)


def ring_buffers(case: Case) -> Number:
    """Return how many copies of the input tiles shared memory holds."""
    return larger(case.stages - 1 + case.wgmma, 1)


def registers_estimate(case: Case) -> Number:
    """Estimate the registers of one thread: its accumulators, its share of a first operand that
    passes through registers, and a constant by kind of load.

    A plain dot holds operands of a few steps of K as well, until registers run out.
    """
    words = size_bytes(case.structure.accumulator_dtype) // 4
    if case.structure.streams:
        return _stream_registers(case)
    if not case.structure.dot:
        return _row_registers(case, words)
    accumulators = ceil_div(case.tile_m * case.tile_n * words, 32 * case.warps)
    if case.plain:
        beside = smaller(accumulators + PLAIN_DOT_REGISTERS, PLAIN_DOT_MOST_REGISTERS)
        return accumulators + beside
    operand = ceil_div(first_operand_bytes(case), 4 * 32 * case.warps) * case.structure.registers
    return accumulators + operand + REGISTERS_BESIDE[case.structure.load]


def _row_registers(case: Case, words: int) -> Number:
    """Count a sum for every point of the block, and the blocks as they were loaded."""
    points = case.tile_m * case.tile_n * case.tile_k * words
    loaded = case.tile_k * (case.tile_m * case.a_bytes + case.tile_n * case.b_bytes) // 4
    return ceil_div(points + loaded, 32 * case.warps) + REGISTERS_OF_ROWS


def points(case: Case) -> Number:
    """Return the points of one block."""
    return case.tile_m * case.tile_n * case.tile_k


def _stream_registers(case: Case) -> Number:
    """Count a sum for every point of every block, and as many again for each of a few loads that
    the compiler puts ahead of their use. Elements loaded one by one take a test and an address
    each, which are kept for all taps.

    Depthwise 3x3 windows, 16 bytes a thread: 16 sums took 69 registers, 32 took 143, 64 took 255
    and spilled. 5x5 windows by single elements, for 1, 2 and 4 of them a thread: 32, 40 and 55
    for one row, 56, 88 and 186 for four (sm_90, Triton 3.6).
    """
    structure = case.structure
    held = ceil_div(points(case), 32 * case.warps)
    ahead = min(3, max(stream.loads for stream in structure.streams))
    single = max((s.loads for s in structure.streams if s.masked and s.width == 1), default=0)
    return held * (structure.copies * (1 + ahead) + single**2 // SINGLE_LOADS) + 24


def programs_per_multiprocessor(case: Case) -> Number:
    """Return how many programs fit on one multiprocessor by shared memory, registers, threads."""
    target = case.target
    threads = target.warp_size * case.warps
    by_shared = target.shared_memory_per_multiprocessor_bytes // (
        shared_bytes(case) + RESERVED_SHARED_BYTES
    )
    registers = ceil_div(registers_estimate(case), 8) * 8 * threads
    by_registers = target.registers_per_multiprocessor // registers
    by_threads = target.max_threads_per_multiprocessor // threads
    return smaller(smaller(by_shared, by_registers), smaller(by_threads, RESIDENT_PROGRAMS))


def ceil_div(a: Number, b: Number) -> Number:
    """Return a / b rounded up."""
    return -(-a // b)


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers, column by column."""
    return a + (b - a) * (b > a)


def smaller(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers, column by column."""
    return a + (b - a) * (b < a)


def covering(extent: int, least: int) -> int:
    """Return the smallest power of two that covers ``extent``, at least ``least``."""
    return max(least, 1 << max(extent - 1, 0).bit_length())
