"""Products with a vector, or with few: rows of the large operand read once, in wide pieces.

Tensor cores would idle on 15 of 16 rows, and their operands pass through shared memory. Here each
thread multiplies what it loads, 16 bytes at a time, and keeps its own sums until the end.
"""

from __future__ import annotations

from search_space.rules.role import Blocking
from search_space.rules.variant import k_major

#: The most vectors that a block multiplies its rows with.
MOST_VECTORS = 4
#: Rows of a block, and elements of each.
ROWS = (1, 2, 4, 8, 16)
LENGTHS = (128, 256, 512, 1024, 2048)
WARPS = (1, 2, 4, 8)


def suits_rows(blocks: Blocking) -> bool:
    """Whether one side of a product is a vector or few, and both operands have K contiguous."""
    roles = blocks.roles
    accumulator = blocks.workload.tensors[blocks.workload.stages[0].output].dtype
    return (
        min(blocks.m.extent, blocks.n.extent) <= MOST_VECTORS
        and not roles.whole
        and accumulator == "float32"
        and k_major(blocks.a, roles.a, blocks.k)
        and k_major(blocks.b, roles.b, blocks.k)
    )


def row_domains(blocks: Blocking) -> dict[str, tuple[int, ...]]:
    """Return the domains of the choices: few vectors, some rows, a long piece of each.

    Loads go to registers, so nothing is staged; programs beside each other hide latency.
    """
    few, many = sorted((blocks.m, blocks.n), key=lambda axis: axis.extent)
    names = {blocks.m: "tile_m", blocks.n: "tile_n"}
    vectors = tuple(v for v in (1, 2, 4) if v < 2 * few.extent)
    return {
        names[few]: vectors,
        names[many]: tuple(r for r in ROWS if r < 2 * many.extent),
        "tile_k": tuple(t for t in LENGTHS if t < 2 * blocks.k.extent) or LENGTHS[:1],
        "stages": (1,),
        "warps": WARPS,
        "group": (1,),
    }
