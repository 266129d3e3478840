"""One nest to one Triton kernel: grid, blocks, then statement by statement.

Knows no operator: what is a product or a reduction is read off the statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from autosched.codegen.arrival import last_to_arrive
from autosched.codegen.epilogue import write_intermediate, write_share, write_store
from autosched.codegen.grid import programs, write_decode
from autosched.codegen.reduction import write_reduction
from autosched.codegen.scope import Scope
from autosched.codegen.text import INDENT
from autosched.codegen.value import SHORT_TEXTS
from search_space.nest import Nest
from search_space.program import Argument


@dataclass(frozen=True)
class Body:
    """The text of one kernel and the arguments that its parameters stand for, in order."""

    source: str
    arguments: tuple[Argument, ...]


def write_kernel(nest: Nest) -> Body:
    """Return the kernel of a finished nest."""
    scope = Scope(nest)
    for number in range(len(nest.groups)):
        _write_ranges(scope, number)
    with ExitStack() as blocks:
        blocks.enter_context(_points(scope))
        copies = scope.copies()
        for stage in nest.statements[:-1]:
            if stage.reducer:
                write_reduction(copies, stage)
            elif stage.output in nest.intermediates:
                for copy in copies:
                    write_intermediate(copy, stage)
            else:
                write_share(scope, stage)
                blocks.enter_context(last_to_arrive(scope))
        for copy in copies:
            write_store(copy, nest.statements[-1])
    return Body(_module(scope), tuple(scope.parameters.values()))


def _write_ranges(scope: Scope, number: int) -> None:
    """Write the tile axes of one group: each a vector along the group's dimension."""
    nest, extent = scope.nest, scope.nest.group_extent(number)
    inner = extent
    for axis in nest.groups[number]:
        inner //= nest.extents[axis]
        if nest.extents[axis] == 1:
            continue
        text = f"tl.arange(0, {extent})"
        text = f"{text} // {inner}" if inner > 1 else text
        if inner * nest.extents[axis] < extent:
            text = f"({text}) % {nest.extents[axis]}"
        scope.range(axis, text)


@contextmanager
def _points(scope: Scope) -> Iterator[None]:
    """Open the loop of a persistent program and decode the grid axes of its point."""
    plan = programs(scope.nest)
    if plan.count == plan.tiles:
        write_decode(scope, None)
        scope.name_grid()
        yield
        return
    tile = scope.names.fresh("tile")
    header = f"for {tile} in tl.range(tl.program_id(0), {plan.tiles}, {plan.count}, flatten=True):"
    with scope.lines.block(header):
        write_decode(scope, tile)
        scope.name_grid()
        yield


def _module(scope: Scope) -> str:
    body = "".join(
        f"{INDENT}{line}\n" if line else "\n" for line in scope.lines.written(scope.ranges)
    )
    comments = "".join(f"{INDENT}# {line}\n" for line in _summary(scope.nest))
    helpers = "".join(f"{t}\n\n" for name, t in SHORT_TEXTS.items() if f"{name}(" in body)
    return (
        f"import triton\nimport triton.language as tl\n\n\n{helpers}"
        f"@triton.jit\ndef {scope.nest.name}({', '.join(scope.parameters)}):\n{comments}{body}"
    )


def _summary(nest: Nest) -> Iterator[str]:
    """Say what the axes are: how each became a grid axis, a loop or a side of a block."""

    def listed(axes: Iterator[str] | tuple[str, ...]) -> str:
        return ", ".join(f"{axis} < {nest.extents[axis]}" for axis in axes)

    whole = (a.name for a in nest.axes if a.name in nest.definitions)
    yield f"axes: {listed(whole)}"
    yield f"grid: {listed(nest.grid)}"
    yield f"block: {' x '.join(listed(group) for group in nest.groups)}"
    if nest.loops:
        yield f"loops: {listed(nest.loops)}"
