"""Which choices of a sketch a target can run, and which are worth a trial, without building.

Works from choices, ``Sketch.structure`` and the target alone: replays no nest, renders nothing.
Every rule is written in arithmetic that means the same for an integer and for a whole column of
integers (one per candidate), so one text refuses a candidate with a sentence and screens a
population at once; no array library is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from search_space.dtype import size_bytes
from search_space.sketch import Sketch, Structure
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

#: Rows of one wgmma instruction; four warps issue it together (PTX ISA, wgmma.mma_async).
WGMMA_ROWS = 64
#: Elements of the output of one mma.sync m16n8 (PTX ISA), the least that keeps a warp busy.
MMA_ELEMENTS = 16 * 8
#: Bytes along K of one tensor core instruction, whatever the dtype (PTX ISA: k16 of 16 bits).
MMA_DEPTH_BYTES = 32
#: Registers beside the accumulators: 26 with descriptors, 40 to 90 with pointers (measured on
#: kernels that Triton 3.6 compiled for sm_90).
REGISTERS_BESIDE = {"descriptor": 26, "pointer": 60}
#: Registers beside the sums and the loaded blocks where there is no dot (sm_90, Triton 3.6).
REGISTERS_OF_ROWS = 20
#: Bytes of the widest load of a thread.
WIDEST_LOAD_BYTES = 16
#: Registers of a plain dot beside as many again as its accumulators, and the most it can do with:
#: 32 accumulators took 96, 64 took 158 to 207, and 128 took 208 to 255 with at most a few spilled.
PLAIN_DOT_REGISTERS, PLAIN_DOT_MOST_REGISTERS = 32, 127
#: Shared memory that the hardware keeps for itself per resident block on sm_80 and later.
RESERVED_SHARED_BYTES = 1024
#: A tensor descriptor's box: at most 256 elements a dimension, at least 16 bytes in the last.
BOX_ELEMENTS = 256
BOX_ROW_BYTES = 16
#: What one dimension of a grid can count.
GRID_PROGRAMS = 2**31 - 1
#: Threads of one block.
BLOCK_THREADS = 1024
#: Multiply-adds per thread that a dot without tensor cores may be unrolled to (Triton writes such
#: a dot out in full): 4096 spill registers in every block tried, and are 64 KiB of instructions.
UNROLLED_MULTIPLY_ADDS = 2048
#: Programs per multiprocessor beyond which more parts of a reduction only add traffic.
SPLIT_PROGRAMS_PER_MULTIPROCESSOR = 8


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
    def tiles_m(self) -> Number:
        """Blocks along M."""
        return ceil_div(self.structure.m, self.tile_m)

    @property
    def tiles_n(self) -> Number:
        """Blocks along N."""
        return ceil_div(self.structure.n, self.tile_n)

    @property
    def tiles(self) -> Number:
        """Blocks of the output, over all batches."""
        return self.structure.batch * self.tiles_m * self.tiles_n

    @property
    def blocks_k(self) -> Number:
        """Blocks along the whole of K."""
        return ceil_div(self.structure.k, self.tile_k)

    @property
    def iterations(self) -> Number:
        """Blocks along K that one program walks through."""
        return ceil_div(self.blocks_k, self.split)

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
    held = {name: choices.get(name, default) for name, default in DEFAULTS.items()}
    return Case(**held, structure=sketch.structure, target=target, least=least)


def columns(sketch: Sketch, matrix: Any) -> dict[str, Any]:
    """Name the columns of a matrix of choices [candidates, choices] in ``sketch.names`` order."""
    return {name: matrix[:, n] for n, name in enumerate(sketch.names)}


def violation(sketch: Sketch, choices: Mapping[str, int], target: Target) -> str | None:
    """Return why ``choices`` are refused, in one sentence, or None if they are legal."""
    case = case_of(sketch, choices, target)
    return next((rule.sentence(case) for rule in RULES if rule.broken(case)), None)


def violations(sketch: Sketch, matrix: Any, target: Target) -> Any:
    """Return a bool array [candidates]: True where ``violation`` would give a sentence.

    ``matrix`` is an integer array [candidates, choices] in ``sketch.names`` order.
    """
    case = case_of(sketch, columns(sketch, matrix), target)
    refused = matrix[:, 0] < 0
    for rule in RULES:
        refused = refused | rule.broken(case)
    return refused


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
    return smaller(smaller(by_shared, by_registers), by_threads)


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


@dataclass(frozen=True, slots=True)
class Rule:
    """One bound: whether a case breaks it, and the sentence that says so."""

    broken: Callable[[Case], Number]
    sentence: Callable[[Case], str]


def _cover_rule(name: str, extent: str) -> Rule:
    def most(case: Case) -> int:
        return covering(getattr(case.structure, extent), max(16, case.least.get(name, 16)))

    return Rule(
        lambda c: getattr(c, name) > most(c),
        lambda c: (
            f"{name}={getattr(c, name)} holds nothing but padding beyond {most(c)}: "
            f"the extent is {getattr(c.structure, extent)}"
        ),
    )


def _box_too_long(case: Case) -> Number:
    long = (
        (case.tile_m > BOX_ELEMENTS) | (case.tile_n > BOX_ELEMENTS) | (case.tile_k > BOX_ELEMENTS)
    )
    return (case.structure.load == "descriptor") & long


def _row_bytes(case: Case) -> Number:
    structure = case.structure
    a_row = (case.tile_k if structure.a_k_major else case.tile_m) * case.a_bytes
    b_row = (case.tile_k if structure.b_k_major else case.tile_n) * case.b_bytes
    return smaller(a_row, b_row)


def _stored_row_bytes(case: Case) -> Number:
    return case.tile_n * case.stored_bytes // case.parts


def _empty_part(case: Case) -> Number:
    return (case.split - 1) * case.iterations >= case.blocks_k


def _split_too_far(case: Case) -> Number:
    most = SPLIT_PROGRAMS_PER_MULTIPROCESSOR * case.target.multiprocessors
    return (case.split > case.least.get("split", 1)) & (case.tiles * case.split > most)


def _idle_warps(case: Case) -> Number:
    return (case.warps > case.least.get("warps", 1)) & (case.warps > _busy_warps(case))


def _busy_warps(case: Case) -> Number:
    """Warps for each of which a block has a tensor core tile, or a load for every thread."""
    if case.structure.dot:
        return case.tile_m * case.tile_n // MMA_ELEMENTS
    rows_bytes = larger(case.tile_m * case.a_bytes, case.tile_n * case.b_bytes)
    return case.tile_k * rows_bytes // (case.target.warp_size * WIDEST_LOAD_BYTES)


def _half_wgmma(case: Case) -> Number:
    return case.wgmma_able & (case.rows >= WGMMA_ROWS) & (case.warps % 4 != 0)


def _loads(case: Case) -> Number:
    programs = case.tiles * case.split
    if not case.structure.persistent:
        return case.iterations
    return case.iterations * ceil_div(programs, case.target.multiprocessors * case.ctas)


def _long_ring(case: Case) -> Number:
    return (case.stages > _loads(case)) & (case.stages > case.least.get("stages", 1))


def _ragged_body(case: Case) -> Number:
    body, tile = _peeled_side(case)
    return (case.structure.peeled != "none") & (body % tile != 0)


def _peeled_side(case: Case) -> tuple[Number, Number]:
    """Return what peeling left of the axis, and the extent of its blocks."""
    by_columns = case.structure.peeled == "n"
    return (case.structure.n, case.tile_n) if by_columns else (case.structure.m, case.tile_m)


def _idle_group(case: Case) -> Number:
    same = (case.group >= 2 * case.tiles_m) | (case.tiles_n == 1)
    return (case.group > case.least.get("group", 1)) & same


def _programs_do_not_fit(case: Case) -> Number:
    return case.structure.persistent & (case.ctas > larger(programs_per_multiprocessor(case), 1))


def _idle_programs(case: Case) -> Number:
    started = (case.ctas - 1) * case.target.multiprocessors
    return case.structure.persistent & (case.ctas > 1) & (case.tiles * case.split <= started)


def _unrolled(case: Case) -> Number:
    return case.tile_m * case.tile_n * case.tile_k // (32 * case.warps)


RULES: tuple[Rule, ...] = (
    _cover_rule("tile_m", "m"),
    _cover_rule("tile_n", "n"),
    _cover_rule("tile_k", "k"),
    Rule(
        lambda c: c.tile_k * smaller(c.a_bytes, c.b_bytes) < MMA_DEPTH_BYTES,
        lambda c: (
            f"tile_k={c.tile_k} must fill one tensor core step of {MMA_DEPTH_BYTES} bytes: "
            f"it is {c.tile_k * min(c.a_bytes, c.b_bytes)} bytes of {c.structure.a_dtype}"
        ),
    ),
    Rule(
        lambda c: c.target.warp_size * c.warps > BLOCK_THREADS,
        lambda c: (
            f"warps={c.warps} must give at most {BLOCK_THREADS} threads: it gives "
            f"{c.target.warp_size * c.warps}"
        ),
    ),
    Rule(
        _half_wgmma,
        lambda c: (
            f"warps={c.warps} must be a multiple of 4, which issue wgmma together: "
            f"the dot has {c.rows} rows"
        ),
    ),
    Rule(
        lambda c: c.structure.registers & ~(c.wgmma > 0),
        lambda c: (
            f"an operand passes through registers for wgmma alone: {c.rows} rows and "
            f"{c.warps} warps make none"
        ),
    ),
    Rule(
        _idle_warps,
        lambda c: (
            f"warps={c.warps} leaves warps idle: a block of {c.tile_m}x{c.tile_n}"
            + (
                f" holds {_busy_warps(c)} tensor core tiles"
                if c.structure.dot
                else f"x{c.tile_k} holds loads of {WIDEST_LOAD_BYTES} bytes for {_busy_warps(c)}"
            )
        ),
    ),
    Rule(
        lambda c: shared_bytes(c) > c.target.shared_memory_per_block_bytes,
        lambda c: (
            f"stages={c.stages} with a block of {c.tile_m}x{c.tile_n}x{c.tile_k} must fit "
            f"in {c.target.shared_memory_per_block_bytes} bytes of shared memory: it takes "
            f"{shared_bytes(c)}"
        ),
    ),
    Rule(
        lambda c: registers_estimate(c) > c.target.max_registers_per_thread,
        lambda c: (
            f"warps={c.warps} with a block of {c.tile_m}x{c.tile_n} must fit in "
            f"{c.target.max_registers_per_thread} registers a thread: it takes about "
            f"{registers_estimate(c)}"
        ),
    ),
    Rule(
        _box_too_long,
        lambda c: (
            f"a descriptor's box has at most {BOX_ELEMENTS} elements a dimension: the block "
            f"is {c.tile_m}x{c.tile_n}x{c.tile_k}"
        ),
    ),
    Rule(
        lambda c: (c.structure.load == "descriptor") & (_row_bytes(c) < BOX_ROW_BYTES),
        lambda c: (
            f"a descriptor's box has rows of at least {BOX_ROW_BYTES} bytes: tile_m="
            f"{c.tile_m}, tile_n={c.tile_n}, tile_k={c.tile_k} gives {_row_bytes(c)}"
        ),
    ),
    Rule(
        lambda c: (c.tile_n < 16 * c.parts) & (c.parts > c.least.get("parts", 1)),
        lambda c: (
            f"parts={c.parts} must leave slices of 16 columns: tile_n={c.tile_n} gives "
            f"{c.tile_n // c.parts}"
        ),
    ),
    Rule(
        lambda c: (c.structure.store == "descriptor") & (_stored_row_bytes(c) < BOX_ROW_BYTES),
        lambda c: (
            f"parts={c.parts} must leave rows of {BOX_ROW_BYTES} bytes for the descriptor: "
            f"tile_n={c.tile_n} gives {_stored_row_bytes(c)}"
        ),
    ),
    Rule(
        lambda c: c.tiles * c.split > GRID_PROGRAMS,
        lambda c: (
            f"tile_m={c.tile_m}, tile_n={c.tile_n} must give at most {GRID_PROGRAMS} "
            f"programs: they give {c.tiles * c.split}"
        ),
    ),
    Rule(
        _long_ring,
        lambda c: (
            f"stages={c.stages} keeps more loads in flight than there are: one program "
            f"walks through {_loads(c)} blocks of K"
        ),
    ),
    Rule(
        _ragged_body,
        lambda c: (
            f"tile_{c.structure.peeled}={_peeled_side(c)[1]} must divide the "
            f"{_peeled_side(c)[0]} elements that peeling left"
        ),
    ),
    Rule(
        lambda c: (c.structure.split != "none") & (c.split < 2),
        lambda c: f"split={c.split} must be 2 or more in a sketch that shares a reduction",
    ),
    Rule(
        _empty_part,
        lambda c: (
            f"split={c.split} must give every part some of K: {c.blocks_k} blocks of "
            f"{c.tile_k} in runs of {c.iterations} leave the last part empty"
        ),
    ),
    Rule(
        _split_too_far,
        lambda c: (
            f"split={c.split} must leave at most {SPLIT_PROGRAMS_PER_MULTIPROCESSOR} programs "
            f"for each of {c.target.multiprocessors} multiprocessors: {c.tiles} blocks make "
            f"{c.tiles * c.split}"
        ),
    ),
    Rule(
        _idle_group,
        lambda c: (
            f"group={c.group} walks the grid as a smaller one does: it has {c.tiles_m} rows "
            f"and {c.tiles_n} columns of blocks"
        ),
    ),
    Rule(
        _programs_do_not_fit,
        lambda c: (
            f"ctas={c.ctas} must be resident together on a multiprocessor: "
            f"{max(programs_per_multiprocessor(c), 1)} fit"
        ),
    ),
    Rule(
        _idle_programs,
        lambda c: (
            f"ctas={c.ctas} starts programs without work: {c.tiles * c.split} blocks for "
            f"{c.target.multiprocessors} multiprocessors"
        ),
    ),
    Rule(
        lambda c: (c.structure.arithmetic == "float32") & (_unrolled(c) > UNROLLED_MULTIPLY_ADDS),
        lambda c: (
            f"warps={c.warps} with a block of {c.tile_m}x{c.tile_n}x{c.tile_k} must write "
            f"out at most {UNROLLED_MULTIPLY_ADDS} multiply-adds a thread: it has {_unrolled(c)}"
        ),
    ),
)
