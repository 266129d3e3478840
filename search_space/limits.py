"""Which choices of a sketch a target can run, and which are worth a trial, without building.

Every rule is written in arithmetic that means the same for an integer and for a whole column of
integers (``search_space.case``), so one text refuses a candidate with a sentence and screens a
population at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from search_space.box import BOX_PIXELS, BOX_WASTE, box_pixels, odd_box, wasted_box
from search_space.case import (
    WGMMA_ROWS,
    Case,
    Number,
    case_of,
    ceil_div,
    columns,
    covering,
    larger,
    points,
    programs_per_multiprocessor,
    registers_estimate,
    shared_bytes,
    smaller,
)
from search_space.sketch import Sketch
from search_space.target import Target

#: Elements of the output of one mma.sync m16n8 (PTX ISA), the least that keeps a warp busy.
MMA_ELEMENTS = 16 * 8
#: Bytes along K of one tensor core instruction, whatever the dtype (PTX ISA: k16 of 16 bits).
MMA_DEPTH_BYTES = 32
#: Bytes of the widest load of a thread.
WIDEST_LOAD_BYTES = 16
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
#: Statements that a thread without a dot may be unrolled to: compiling them takes seconds.
UNROLLED_STATEMENTS = 512
#: Programs per multiprocessor beyond which more parts of a reduction only add traffic.
SPLIT_PROGRAMS_PER_MULTIPROCESSOR = 8


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


@dataclass(frozen=True, slots=True)
class Rule:
    """One bound: whether a case breaks it, and the sentence that says so."""

    broken: Callable[[Case], Number]
    sentence: Callable[[Case], str]


def _cover_rule(name: str, extent: Callable[[Case], int]) -> Rule:
    def most(case: Case) -> int:
        return covering(extent(case), max(16, case.least.get(name, 16)))

    return Rule(
        lambda c: getattr(c, name) > most(c),
        lambda c: (
            f"{name}={getattr(c, name)} holds nothing but padding beyond {most(c)}: "
            f"the extent is {extent(c)}"
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
    if case.structure.streams:
        width = max(stream.width for stream in case.structure.streams)
        return points(case) // (case.target.warp_size * width)
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


def _registers_of_a_thread(case: Case) -> Number:
    return case.target.registers_per_multiprocessor // (case.target.warp_size * case.warps)


def _long_body(case: Case) -> Number:
    """Statements of a thread in one turn: those of the text, for each element that it holds."""
    return case.structure.steps * ceil_div(points(case), 32 * case.warps)


def _unrolled(case: Case) -> Number:
    return case.tile_m * case.tile_n * case.tile_k // (32 * case.warps)


RULES: tuple[Rule, ...] = (
    _cover_rule("tile_m", lambda c: c.structure.m),
    _cover_rule("tile_n", lambda c: c.structure.n),
    _cover_rule("tile_k", lambda c: c.extent_k),
    Rule(
        odd_box,
        lambda c: (
            f"a box of {box_pixels(c)} pixels must have {BOX_PIXELS[0]} to {BOX_PIXELS[1]} of them"
        ),
    ),
    Rule(
        wasted_box,
        lambda c: (
            f"boxes of {box_pixels(c)} pixels must not hold {BOX_WASTE} times the pixels there "
            "are: they overhang too far"
        ),
    ),
    Rule(
        lambda c: (
            (c.tile_k * smaller(c.a_bytes, c.b_bytes) < MMA_DEPTH_BYTES) & (not c.structure.streams)
        ),
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
        lambda c: c.structure.registers & (c.wgmma == 0),
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
        lambda c: bool(c.structure.streams) & (registers_estimate(c) > _registers_of_a_thread(c)),
        lambda c: (
            f"warps={c.warps} with a block of {c.tile_m}x{c.tile_n}x{c.tile_k} must fit in the "
            f"{_registers_of_a_thread(c)} registers that so many threads have: it takes about "
            f"{registers_estimate(c)} a thread"
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
        lambda c: bool(c.structure.streams) & (_long_body(c) > UNROLLED_STATEMENTS),
        lambda c: (
            f"warps={c.warps} with a block of {c.tile_m}x{c.tile_n}x{c.tile_k} must write out at "
            f"most {UNROLLED_STATEMENTS} statements a thread: it has {_long_body(c)}"
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
