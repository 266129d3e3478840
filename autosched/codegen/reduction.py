"""Statements that reduce: a product on the tensor cores, or values summed block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.codegen.address import Address, Condition, address
from autosched.codegen.block import (
    Source,
    load_text,
    mask_text,
    name_conditions,
    prepare,
)
from autosched.codegen.dtype import TRITON_NAMES
from autosched.codegen.scope import Block, Scope, Space, placed
from autosched.codegen.text import unwrapped
from autosched.codegen.value import identity_text, value_text
from search_space import access
from search_space.expr import Call, Expr, Read, reads
from search_space.index import axes_of
from search_space.nest import Nest
from search_space.workload import Stage

#: Sums carried around a loop as bits: a use of each turn's result, without an instruction. The
#: compiler then waits for a turn's products before it loads the registers of their first operand
#: again, which ptxas before 13.3 may do too early (triton-lang/triton#9433, #11781).
_BITS, _FLOATS = ".to(tl.int32, bitcast=True)", ".to(tl.float32, bitcast=True)"


def write_reduction(copies: Sequence[Scope], stage: Stage) -> None:
    """Write one reducing statement, once for each of ``copies`` (``Scope.copies``); its block is
    then held in their ``blocks``."""
    operands = access.product(stage) if copies[0].nest.tensorized else None
    if operands:
        _write_dot(copies[0], stage, operands)
    else:
        _write_plain([_prepared(scope, stage) for scope in copies])


def _write_dot(scope: Scope, stage: Stage, operands: tuple[Read, Read]) -> None:
    nest = scope.nest
    reduced = next(n for n in range(len(nest.groups)) if is_reduction_group(nest, n))
    side = {operand: _spatial_group(nest, operand) for operand in operands}
    rows, columns = access.store_groups(nest)[-2:]
    space = (columns, rows) if nest.swap else (rows, columns)
    first, second = sorted(operands, key=lambda operand: space.index(side[operand]))
    scope.blocks[stage.output] = Block(stage.output, space)
    sources = [
        prepare(scope, nest, first, (space[0], reduced)),
        prepare(scope, nest, second, (reduced, space[1])),
    ]
    scope.lines.add(f"{stage.output} = {_identity(nest, stage, space)}")
    loops = _loops_of(nest, stage)
    settled = nest.registers and bool(loops)
    if settled:
        scope.lines.add(f"{stage.output} = {stage.output}{_BITS}")
    with serial_loops(scope, loops):
        tiles = [_loaded(scope, source) for source in sources]
        if nest.registers:
            # Arithmetic that no compiler may drop: its result is an operand held in registers.
            tiles[0] = f"{tiles[0]} + 0.0"
        mode = _dot_mode(nest, nest.tensor[first.tensor].dtype)
        summed = f"{stage.output}{_FLOATS}" if settled else stage.output
        call = f"tl.dot({tiles[0]}, {tiles[1]}, {summed}{mode})"
        scope.lines.add(f"{stage.output} = {call}{_BITS if settled else ''}")
    if settled:
        scope.lines.add(f"{stage.output} = {stage.output}{_FLOATS}")


def _dot_mode(nest: Nest, dtype: str) -> str:
    """Return the arguments that say how products of ``dtype`` are formed and summed."""
    if dtype == "float32":
        return f', input_precision="{nest.precision}"'
    if dtype == "float8_e4m3" and nest.precision != "fast":
        return ", max_num_imprecise_acc=0"
    return ", out_dtype=tl.int32" if dtype == "int8" else ""


def _spatial_group(nest: Nest, operand: Read) -> int:
    groups = [g for form in operand.index for g in access.groups_in(nest, form)]
    return next(g for g in groups if not is_reduction_group(nest, g))


def _loaded(scope: Scope, source: Source) -> str:
    return scope.assign(f"{source.read.tensor}_tile", load_text(scope, scope.nest, source))


@dataclass(frozen=True)
class _Sum:
    """A reducing statement whose operands' addresses have been written."""

    scope: Scope
    stage: Stage
    #: The name of its block, the tile groups of what is reduced, and those that are kept.
    name: str
    space: Space
    kept: Space
    held: Mapping[Read, Block]
    loaded: Mapping[Read, Address]
    sources: tuple[Source, ...]


def _prepared(scope: Scope, stage: Stage) -> _Sum:
    nest = scope.nest
    held = {r: scope.blocks[r.tensor] for r in reads(stage.value) if r.tensor in scope.blocks}
    loaded = {r: address(nest, r, load=True) for r in reads(stage.value) if r not in held}
    space, kept = _space(nest, stage, held, loaded)
    sources = tuple(
        prepare(scope, nest, read, tuple(g for g in space if g in where.groups))
        for read, where in loaded.items()
    )
    name = scope.block_name(stage.output)
    scope.blocks[stage.output] = Block(name, kept)
    return _Sum(scope, stage, name, space, kept, held, loaded, sources)


def _write_plain(sums: Sequence[_Sum]) -> None:
    scope, stage = sums[0].scope, sums[0].stage
    loops = _loops_of(scope.nest, stage)
    late = scope.nest.late and bool(loops)
    for one in sums if loops else ():
        start = _identity(one.scope.nest, stage, one.space if late else one.kept)
        scope.lines.add(f"{one.name} = {start}")
    with serial_loops(scope, loops):
        for one in sums:
            value = _value(one)
            value = value if late else _reduced(stage, value, one.space, one.kept)
            _accumulate(one, value, looped=bool(loops))
    for one in sums:
        if late and one.space != one.kept:
            scope.lines.add(f"{one.name} = {_reduced(stage, one.name, one.space, one.kept)}")


def _value(one: _Sum) -> str:
    """Load what one turn of the loops reduces; return its value."""
    scope, stage, space = one.scope, one.stage, one.space
    texts = {read: placed(block, space) for read, block in one.held.items()}
    texts |= {s.read: placed(widened(scope, scope.nest, s), space) for s in one.sources}
    value = value_text(stage.value, texts.__getitem__, scope.nest.tensor[stage.output].dtype)
    return _masked(scope, stage, unwrapped(value), one.loaded, space)


def _space(
    nest: Nest, stage: Stage, held: Mapping[Read, Block], loaded: Mapping[Read, Address]
) -> tuple[Space, Space]:
    """Return the tile groups that the value of a statement spans, and those that are kept."""
    order = max((block.space for block in held.values()), key=len, default=())
    touched = {g for where in loaded.values() for g in where.groups}
    touched |= {g for block in held.values() for g in block.space}
    inside = {g for form in stage.index for g in access.groups_in(nest, form)}
    ordered = dict.fromkeys([*order, *access.store_groups(nest), *sorted(touched)])
    spatial = [g for g in ordered if g in touched and not is_reduction_group(nest, g)]
    kept = tuple(g for g in spatial if g in inside)
    return (tuple(spatial) + tuple(g for g in ordered if g in touched - set(spatial))), kept


def _masked(
    scope: Scope, stage: Stage, value: str, loaded: Mapping[Read, Address], space: Space
) -> str:
    """Return a value in which what lies past an axis, or was filled by a mask, counts as the
    identity of the reduction."""
    nest, reducer = scope.nest, stage.reducer or "sum"
    leaves = {n for axis in nest.reduction_axes(stage) for n in axes_of(nest.resolve(axis))}
    conditions = [c for where in loaded.values() for c in where.conditions]
    conditions += [
        Condition(nest.resolve(axis), None, nest.extents[axis])
        for axis in nest.reduction_axes(stage)
        if axis in nest.overhangs
    ]
    filled = _conditions_that_vanish(stage, loaded)
    bound = tuple(
        c for c in dict.fromkeys(conditions) if leaves & set(axes_of(c.index)) and c not in filled
    )
    if bound:
        name_conditions(scope, nest, bound)
        mask = mask_text(scope, nest, bound, space)
        identity = identity_text(reducer, nest.tensor[stage.output].dtype)
        value = f"tl.where({mask}, {value}, {identity})"
    return value


def _conditions_that_vanish(stage: Stage, loaded: Mapping[Read, Address]) -> set[Condition]:
    """Return the conditions outside of which a sum's value is 0 by what masked loads fill in."""
    if stage.reducer != "sum":
        return set()
    vanishing = (where for read, where in loaded.items() if _vanishes(stage.value, read))
    return {condition for where in vanishing for condition in where.conditions}


def _vanishes(value: Expr, read: Read) -> bool:
    """Whether ``value`` is 0 where ``read`` is, whatever finite numbers stand beside it."""
    if isinstance(value, Call) and value.function == "mul":
        return any(_vanishes(arg, read) for arg in value.args)
    return value == read


def _reduced(stage: Stage, value: str, space: Space, kept: Space) -> str:
    """Reduce a value along the groups that are not kept."""
    reducer = stage.reducer or "sum"
    for position in reversed(range(len(space))):
        if space[position] not in kept:
            value = f"tl.{reducer}({value}, axis={position})"
    return value


def _accumulate(one: _Sum, value: str, *, looped: bool) -> None:
    """Write ``output (+|max)= value`` within a loop, and ``output = value`` without one."""
    if looped and one.stage.reducer == "sum":
        value = f"{one.name} + {value}"
    elif looped:
        value = f"tl.maximum({one.name}, {value})"
    one.scope.lines.add(f"{one.name} = {value}")


def widened(scope: Scope, nest: Nest, source: Source) -> Block:
    """Load a block and widen it to the dtype that the nest computes in."""
    text, wide = load_text(scope, nest, source), nest.compute_dtype()
    if nest.tensor[source.read.tensor].dtype != wide:
        text = f"{text}.to({TRITON_NAMES[wide]})"
    return Block(scope.assign(f"{source.read.tensor}_tile", text), source.space)


def is_reduction_group(nest: Nest, number: int) -> bool:
    """Whether a tile group holds reduction axes."""
    return nest.kinds[nest.groups[number][0]] == "reduction"


def _identity(nest: Nest, stage: Stage, space: Space) -> str:
    shape = [str(nest.group_extent(g)) for g in space]
    held = nest.tensor[stage.output].dtype
    dtype = TRITON_NAMES[held]
    if stage.reducer == "sum":
        return f"tl.zeros([{', '.join(shape)}], {dtype})"
    return f"tl.full([{', '.join(shape)}], {identity_text('max', held)}, {dtype})"


def _loops_of(nest: Nest, stage: Stage) -> tuple[str, ...]:
    forms = [form for read in reads(stage.value) for form in read.index]
    used = {name for form in forms for name in nest.ancestors(form)}
    return tuple(name for name in nest.loops if name in used and nest.extents[name] > 1)


@contextmanager
def serial_loops(scope: Scope, loops: tuple[str, ...]) -> Iterator[None]:
    """Open ``loops``, outermost first, around what is written within."""
    if not loops:
        yield
        return
    axis, extent = loops[0], scope.nest.extents[loops[0]]
    header = f"tl.range({extent})"
    if axis in scope.nest.unrolled:
        header = f"tl.static_range({extent})"
    elif _is_unrolled_at_a_cost(scope.nest, extent):
        # The grid has one program along dimension 1: a factor that only we know.
        header = f"tl.range({extent} * tl.num_programs(1))"
    with scope.loop(axis, f"for {axis} in {header}:"), serial_loops(scope, loops[1:]):
        yield


def _is_unrolled_at_a_cost(nest: Nest, trips: int) -> bool:
    """Whether the assembler would unroll a loop over pointers whole, seconds for nothing.

    ptxas unrolls up to 64 known trips (13 s for a block of 64 x 256 x 16). Up to 16 the kernels
    gain by it, beyond they do not: docs/adr/0002.
    """
    by_pointer = set(nest.cache_reads.values()) != {"descriptor"}
    return by_pointer and 16 < trips <= 64
