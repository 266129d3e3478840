"""Statements that follow a reduction: elementwise values, and the store, whole or in parts."""

from __future__ import annotations

from dataclasses import replace

from autosched.codegen.block import load_text, prepare, store
from autosched.codegen.dtype import TRITON_NAMES
from autosched.codegen.reduction import widened
from autosched.codegen.scope import Block, Scope, Space, placed
from autosched.codegen.text import unwrapped
from autosched.codegen.value import value_text
from search_space import access
from search_space.dtype import size_bytes
from search_space.expr import Read, reads
from search_space.index import Index, Var
from search_space.nest import Nest
from search_space.workload import Axis, Stage


def write_intermediate(scope: Scope, stage: Stage) -> None:
    """Write a statement whose value stays in registers."""
    space = _space(scope, stage)
    name = scope.block_name(stage.output)
    scope.lines.add(f"{name} = {_evaluate(scope, scope.nest, stage, space)}")
    scope.blocks[stage.output] = Block(name, space)


def write_share(scope: Scope, stage: Stage) -> None:
    """Write a statement that leaves a share of a reduction in its workspace."""
    _store(scope, replace(scope.nest, store="pointer", parts=1), stage, _space(scope, stage))


def write_store(scope: Scope, stage: Stage) -> None:
    """Write the last statement and its store, slice by slice where the nest says so."""
    space, whole = _space(scope, stage), dict(scope.blocks)
    # What was reduced may be read again: the block is then wider than what is held of it.
    if not {g for form in stage.index for g in access.groups_in(scope.nest, form)} <= set(space):
        space = access.store_groups(scope.nest)
    if scope.nest.parts == 1:
        _store(scope, scope.nest, stage, space)
        return
    column = space[-1]
    slices = {n: _slices(scope, b) for n, b in whole.items() if column in b.space}
    for part in range(scope.nest.parts):
        nest = part_of(scope.nest, column, part)
        if part == 0:
            (axis,) = nest.groups[column]
            scope.range(axis, f"tl.arange(0, {nest.extents[axis]})")
        pieces = {n: Block(names[part], whole[n].space) for n, names in slices.items()}
        scope.blocks = {**whole, **pieces}
        _store(scope, nest, stage, space)


def part_of(nest: Nest, column: int, part: int) -> Nest:
    """Return ``nest`` with the column group narrowed to slice ``part``: a nest like any other."""
    (axis,) = nest.groups[column]
    width, name = nest.extents[axis] // nest.parts, f"{axis}_part"
    groups = tuple((name,) if n == column else group for n, group in enumerate(nest.groups))
    return replace(
        nest,
        axes=(*nest.axes, Axis(name, width, "spatial")),
        definitions={**nest.definitions, axis: Index(((Var(name), 1),), part * width)},
        groups=groups,
    )


def _slices(scope: Scope, block: Block) -> list[str]:
    """Cut a block into equal parts along its last dimension, halving again and again."""
    rows, extent = (scope.nest.group_extent(g) for g in block.space)
    pieces = [block.name]
    while len(pieces) < scope.nest.parts:
        extent //= 2
        halves: list[str] = []
        for piece in pieces:
            pair = [scope.names.fresh(f"{piece}_{side}") for side in ("left", "right")]
            shaped = f"tl.reshape({piece}, [{rows}, 2, {extent}])"
            scope.lines.add(f"{', '.join(pair)} = tl.split(tl.permute({shaped}, [0, 2, 1]))")
            halves += pair
        pieces = halves
    return pieces


def _space(scope: Scope, stage: Stage) -> Space:
    held = [scope.blocks[r.tensor].space for r in reads(stage.value) if r.tensor in scope.blocks]
    return max(held, key=len) if held else access.store_groups(scope.nest)


def _evaluate(scope: Scope, nest: Nest, stage: Stage, space: Space) -> str:
    texts = {read: placed(_operand(scope, nest, read, space), space) for read in reads(stage.value)}
    wish = f"{stage.output}_term"
    return value_text(
        stage.value,
        texts.__getitem__,
        nest.compute_dtype(),
        lambda text: scope.assign(wish, unwrapped(text)),
        short=size_bytes(nest.tensor[stage.output].dtype) <= 2,
    )


def _operand(scope: Scope, nest: Nest, read: Read, space: Space) -> Block:
    if read.tensor in scope.blocks:
        return scope.blocks[read.tensor]
    along = {group for form in read.index for group in access.groups_in(nest, form)}
    own = tuple(group for group in space if group in along)
    return widened(scope, nest, prepare(scope, nest, read, own))


def _store(scope: Scope, nest: Nest, stage: Stage, space: Space) -> None:
    output = nest.tensor[stage.output]
    if _is_copy(scope, nest, stage):
        _store_copy(scope, nest, stage, space)
        return
    value = _evaluate(scope, nest, stage, space)
    if not reads(stage.value):
        extents = ", ".join(str(nest.group_extent(group)) for group in space)
        value = f"tl.full([{extents}], {value}, {TRITON_NAMES[output.dtype]})"
    elif output.dtype != nest.compute_dtype():
        value = f"{value}.to({TRITON_NAMES[output.dtype]})"
    tile = value if value.isidentifier() else scope.assign(f"{stage.output}_tile", unwrapped(value))
    store(scope, nest, Read(stage.output, stage.index), tile, space)


def _is_copy(scope: Scope, nest: Nest, stage: Stage) -> bool:
    """Whether a statement moves elements as they are, from memory to memory."""
    value = stage.value
    if not isinstance(value, Read) or value.tensor in scope.blocks:
        return False
    return nest.tensor[value.tensor].dtype == nest.tensor[stage.output].dtype


def _store_copy(scope: Scope, nest: Nest, stage: Stage, space: Space) -> None:
    (read,) = reads(stage.value)
    source = prepare(scope, nest, read, space)
    tile = scope.assign(f"{stage.output}_tile", load_text(scope, nest, source))
    store(scope, nest, Read(stage.output, stage.index), tile, space)
