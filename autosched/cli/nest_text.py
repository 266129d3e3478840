"""A nest as the loops that it stands for, for people. Prints nothing, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.te.parser import REDUCERS
from autosched.te.printer import affine, expression
from search_space.index import Atom, Index, Quotient, Remainder, Var
from search_space.nest import Nest
from search_space.workload import Stage

_SIGNS = {reducer: sign for sign, reducer in REDUCERS.items()}


def nest_text(nest: Nest) -> str:
    """Write a nest as loops over statements; what no step has decided is left out."""
    return "\n".join(_lines(nest)) + "\n"


def _lines(nest: Nest) -> Iterator[str]:
    yield f"nest {nest.name}"
    for axis, index in nest.definitions.items():
        yield f"  {axis} = {_index(index)}{_guard(nest, axis)}"
    indent = "  "
    for header in _headers(nest):
        yield indent + header
        indent += "  "
    for stage in nest.statements:
        yield from _statement(nest, stage, indent)


def _guard(nest: Nest, axis: str) -> str:
    if axis not in nest.overhangs:
        return ""
    return f"  (past {nest.extents[axis]}: {nest.guards.get(axis, 'mask')})"


def _headers(nest: Nest) -> Iterator[str]:
    if nest.grid:
        swizzle = f", swizzle {nest.swizzle}" if nest.swizzle > 1 else ""
        yield f"grid {_axes(nest, nest.grid)}{swizzle}, {nest.warps} warps:"
        if nest.persistent:
            programs = nest.multiprocessors * nest.per_multiprocessor
            yield f"walked by {programs} programs:"
    if nest.groups:
        blocks = [_axes(nest, group, "*") for group in nest.groups]
        yield f"block {' x '.join(blocks)}:"
    spatial = [name for name in nest.loops if nest.kinds[name] == "spatial"]
    if spatial:
        yield f"for {_axes(nest, spatial)}:"


def _statement(nest: Nest, stage: Stage, indent: str) -> Iterator[str]:
    reductions = [name for name in nest.loops if nest.kinds[name] == "reduction"]
    if stage.reducer and reductions:
        staged = f", {nest.stages} stages" if nest.stages > 1 else ""
        yield f"{indent}for {_axes(nest, reductions)}{staged}:"
        indent += "  "
    if stage.reducer:
        for tensor, via in nest.cache_reads.items():
            yield f"{indent}read {tensor} by {via}"
    left = f"{stage.output}[{','.join(affine(form) for form in stage.index)}]"
    dot = "  (dot)" if stage.reducer and nest.tensorized else ""
    yield f"{indent}{left} {_SIGNS[stage.reducer]} {expression(stage.value)}{dot}"
    if stage is nest.statements[-1] and nest.grid:
        parts = f" in {nest.parts} parts" if nest.parts > 1 else ""
        how = "added atomically" if nest.atomic else f"stored by {nest.store}"
        yield f"{indent}{stage.output} {how}{parts}"


def _axes(nest: Nest, names: list[str] | tuple[str, ...], separator: str = ", ") -> str:
    return separator.join(f"{name} < {nest.extents[name]}" for name in names)


def _index(index: Index) -> str:
    parts = [_atom(atom) if c == 1 else f"{c}*{_atom(atom)}" for atom, c in index.terms]
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts)


def _atom(atom: Atom) -> str:
    match atom:
        case Var(name):
            return name
        case Quotient(value, divisor):
            return f"({_index(value)}) // {divisor}"
        case Remainder(value, divisor):
            return f"({_index(value)}) % {divisor}"
