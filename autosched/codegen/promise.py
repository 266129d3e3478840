"""What the compiled code of a kernel must hold, given its nest and target."""

from __future__ import annotations

from autosched.codegen.kernel import Body
from search_space import access
from search_space.dtype import size_bytes
from search_space.expr import reads
from search_space.nest import Nest
from search_space.program import DescriptorArgument
from search_space.target import Target


def promises(nest: Nest, body: Body, target: Target) -> tuple[str, ...]:
    """Return the names of the instructions that the kernel promises: those that its steps ask
    for and ``target`` has."""
    wanted = []
    if nest.tensorized and not _is_ieee(nest):
        wanted.append("wgmma" if _fits_wgmma(nest, target) else "mma")
    if any(isinstance(argument, DescriptorArgument) for argument in body.arguments):
        wanted.append("tma")
    if _copies_asynchronously(nest):
        wanted.append("cp.async")
    return tuple(name for name in wanted if name in target.features)


def _is_ieee(nest: Nest) -> bool:
    operand = access.product(nest.statements[0])
    return operand is not None and (
        nest.tensor[operand[0].tensor].dtype == "float32" and nest.precision == "ieee"
    )


def _fits_wgmma(nest: Nest, target: Target) -> bool:
    """Whether Triton picks wgmma: 64 rows or more, four warps or more, and sums of float8
    products that may stay in the tensor core's own accumulator."""
    dtypes = {nest.tensor[r.tensor].dtype for r in reads(nest.statements[0].value)}
    if "float8_e4m3" in dtypes and nest.precision != "fast":
        return False
    rows = access.store_groups(nest)[-1 if nest.swap else -2]
    return "wgmma" in target.features and nest.group_extent(rows) >= 64 and nest.warps >= 4


def _copies_asynchronously(nest: Nest) -> bool:
    operands = access.product(nest.statements[0]) if nest.tensorized else None
    looped = any(nest.extents[name] > 1 for name in nest.loops)
    if operands is None or nest.stages < 2 or not looped:
        return False
    pointers = [o.tensor for o in operands if nest.cache_reads.get(o.tensor) != "descriptor"]
    widths = [nest.vectors.get(name, 1) * size_bytes(nest.tensor[name].dtype) for name in pointers]
    return bool(widths) and min(widths) >= 4
