"""Sketches: steps with named open choices, each with an ordered domain.

A sketch also says, in ``Structure``, what bounds and features need to know of it, so that these
are computed from choices alone, without replaying a nest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from search_space.schedule import Schedule
from search_space.steps import Step, close
from search_space.workload import Workload

#: The names that choices of a contraction carry, whatever the sketch. Not every sketch has all.
#: tile_m, tile_n, tile_k  extents of the block
#: stages                  loads in flight
#: warps                   warps of one program
#: group                   swizzle: rows of programs walked together
#: parts                   slices in which the block is stored
#: split                   programs that share one reduction
#: ctas                    programs per multiprocessor of a persistent kernel
CHOICES = ("tile_m", "tile_n", "tile_k", "stages", "warps", "group", "parts", "split", "ctas")


@dataclass(frozen=True, slots=True)
class Side:
    """One axis of a side of the block: the choice that says how much of it, and its extent."""

    choice: str
    extent: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor on its way through registers, where blocks are not multiplied.

    ``along`` names the sides of the block that its own blocks run along, some of "mnk".
    Neighbouring lanes read elements ``stride`` apart, ``width`` of them in one access. A turn of
    the serial loops loads ``loads`` blocks of it, ``masked`` by its bounds.
    """

    element_bytes: int
    #: Distinct elements as stored: what memory moves at the least.
    elements: int
    along: str
    stride: int
    width: int
    loads: int
    masked: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A named integer to be chosen from ``domain``, whose neighbours are alike."""

    name: str
    domain: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """How a contraction sketch computes and moves data; extents are products over axes.

    ``a`` is the operand that holds M, ``b`` the one that holds N; ``m``, ``n`` and ``k`` count
    combinations where a side has several axes. ``*_k_major`` says that the
    operand's contiguous dimension is K. ``row_bytes`` of a, b and the output is the largest power
    of two, at most 16, that divides every row stride and the base alignment, in bytes.
    """

    batch: int
    m: int
    n: int
    k: int
    a_dtype: str
    b_dtype: str
    accumulator_dtype: str
    output_dtype: str
    #: The key of the target's rates: "float16", "bfloat16", "float8_e4m3", "int8", "tf32",
    #: "tf32x3"; "float32" and "float8_ieee" run without wgmma.
    arithmetic: str
    a_k_major: bool
    b_k_major: bool
    a_row_bytes: int
    b_row_bytes: int
    output_row_bytes: int
    load: Literal["pointer", "descriptor"]
    store: Literal["pointer", "descriptor"]
    persistent: bool
    split: Literal["none", "workspace", "atomic", "counter"]
    #: Bytes that the epilogue reads beside the operands, and its functions per output element.
    epilogue_bytes: int
    epilogue_calls: int
    #: Whether the product is computed transposed, with ``b`` as the first operand.
    swap: bool = False
    #: Whether the dot reads its first operand from registers, so that it may lie either way.
    registers: bool = False
    #: Inputs of the epilogue that are brought on chip block by block, as large as the output's.
    block_inputs: int = 0
    #: Operands that are copied into another layout first on every run, and the bytes read and
    #: written for it. Constant operands are copied before the first run and count for nothing.
    packs: int = 0
    #: Whether blocks are multiplied on the tensor cores; without, products are summed point by
    #: point in registers.
    dot: bool = True
    packed_bytes: int = 0
    #: The axis whose end is computed in a nest of its own, and how long that end is; ``m`` or
    #: ``n`` is the extent before it.
    peeled: Literal["none", "m", "n"] = "none"
    rest: int = 0
    #: Turns that the loop takes for each block along K: the taps of a window. ``k`` is their
    #: product with the extent that blocks along K cover.
    taps: int = 1
    #: Elements of a and b as stored, over all batches, where they are not ``batch * m * k`` and
    #: ``batch * n * k``: windows overlap, or miss.
    a_elements: int = 0
    b_elements: int = 0
    #: Whether rows of an operand begin within lines of L2, so that boxes take more of them.
    a_straddles: bool = False
    b_straddles: bool = False
    #: Whether no axis of the block runs along the rows of an operand, so that each of its elements
    #: is loaded apart.
    a_scattered: bool = False
    b_scattered: bool = False
    #: Whether pointers are checked against an operand's bounds in every turn.
    masked: bool = False
    #: The axes of a side of the block, where ``tile_m`` or ``tile_n`` is a product of choices.
    m_sides: tuple[Side, ...] = ()
    n_sides: tuple[Side, ...] = ()
    #: Where blocks are not multiplied: what is loaded, block by block. Empty where ``a`` and ``b``
    #: say it.
    streams: tuple[Stream, ...] = ()
    #: The side of the block along which the lanes of a warp lie.
    lanes: Literal["m", "n", "k"] = "n"
    #: Blocks of the output that a program computes, and statements of one turn of its loops.
    copies: int = 1
    steps: int = 1


@dataclass(frozen=True)
class Sketch:
    """Steps with open choices for one workload. ``name`` says what the rule built, such as
    "contraction.descriptor.persistent"."""

    name: str
    workload: Workload
    steps: tuple[Step, ...]
    choices: tuple[Choice, ...]
    structure: Structure

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the open choices in order."""
        return tuple(choice.name for choice in self.choices)

    @property
    def size(self) -> int:
        """How many combinations of choices there are, legal or not."""
        return math.prod(len(choice.domain) for choice in self.choices)


def fill(sketch: Sketch, choices: Mapping[str, int]) -> Schedule:
    """Make every open choice. Raises ValueError on a missing, foreign or out-of-domain value."""
    if set(choices) != set(sketch.names):
        raise ValueError(f"{sketch.name} takes {sketch.names}, not {tuple(choices)}")
    for choice in sketch.choices:
        if choices[choice.name] not in choice.domain:
            raise ValueError(f"{choice.name}={choices[choice.name]} is not in {choice.domain}")
    ordered = {name: int(choices[name]) for name in sketch.names}
    return Schedule(tuple(close(step, ordered) for step in sketch.steps), sketch.name, ordered)
