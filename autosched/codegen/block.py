"""Loads and stores of blocks, by pointers or by descriptors. Knows nothing of what they feed."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.codegen.address import Address, Condition, address, groups_of
from autosched.codegen.scope import Scope, Space, is_wide, scalar_part, scalar_text, spelled
from autosched.codegen.text import expand, index_text
from search_space import access
from search_space.expr import Read
from search_space.index import Index, Var, axes_of
from search_space.nest import Nest


@dataclass(frozen=True)
class Source:
    """A block about to be loaded: all that loops leave alone has been written."""

    read: Read
    space: Space
    #: Pointers and where they come from; None for a descriptor.
    at: str = ""
    where: Address | None = None


def prepare(scope: Scope, nest: Nest, read: Read, space: Space) -> Source:
    """Write the addresses of a block as far as the serial loops leave them alone."""
    if nest.cache_reads.get(read.tensor) == "descriptor":
        return Source(read, space)
    where = address(nest, read, load=True)
    name_conditions(scope, nest, where.conditions)
    return Source(read, space, pointers(scope, nest, read, where, space), where)


def load_text(scope: Scope, nest: Nest, source: Source) -> str:
    """Return the expression that loads a block at the current iteration."""
    if source.where is None:
        return _descriptor_load(scope, nest, source.read, source.space)
    where = source.where
    moved = [source.at]
    if where.mixed.terms:
        moved.append(f"({placed_index(scope, nest, where.mixed, source.space)})")
    if where.step != Index():
        step = scalar_text(scope, nest, where.step)
        # Numbers are added up first, so that what is read at one place reads alike.
        moved.append(f"({step})" if nest.unrolled else step)
    mask = mask_text(scope, nest, where.conditions, source.space)
    tail = f", mask={mask}, other=0.0" if mask else ""
    # What other programs have just written is read past the cache of this multiprocessor.
    tail += ', cache_modifier=".cg"' if _is_shared(nest, source.read) else ""
    return f"tl.load({' + '.join(moved)}{tail})"


def _is_shared(nest: Nest, read: Read) -> bool:
    return bool(nest.counter) and read.tensor in {t.name for t in nest.workspaces}


def store(scope: Scope, nest: Nest, target: Read, value: str, space: Space) -> None:
    """Write the store of ``value``, which spans ``space``, to the block of ``target``."""
    if nest.store == "descriptor":
        _descriptor_store(scope, nest, target, value, space)
        return
    where = address(nest, target, load=False)
    name_conditions(scope, nest, where.conditions)
    at = pointers(scope, nest, target, where, space)
    mask = mask_text(scope, nest, where.conditions, space)
    tail = f", mask={mask}" if mask else ""
    if nest.atomic:
        scope.lines.add(f'tl.atomic_add({at}, {value}{tail}, sem="relaxed")')
    else:
        scope.lines.add(f"tl.store({at}, {value}{tail})")


def pointers(scope: Scope, nest: Nest, read: Read, where: Address, space: Space) -> str:
    """Write one tensor of pointers: a scalar base and one vector per tile group."""
    texts = [scope.pointer(read.tensor)]
    if where.base != Index():
        texts.append(f"({scalar_text(scope, nest, where.base)})")
    vectors = [
        expand(_vector_text(scope, nest, index, len(space)), space.index(group), len(space))
        for group, index in where.vectors.items()
    ]
    missing = set(space) - set(where.vectors) - set(groups_of(nest, where.mixed))
    if missing:
        shape = ", ".join(str(nest.group_extent(group)) for group in space)
        zero = f"tl.zeros([{shape}], tl.int32)"
        vectors = [f"tl.broadcast_to({' + '.join(vectors)}, [{shape}])" if vectors else zero]
    if vectors:
        texts.append(f"({' + '.join(vectors)})" if len(space) > 1 else vectors[0])
    if len(texts) == 1:
        return texts[0]
    return scope.assign_once(f"{read.tensor}_at", " + ".join(texts))


def _vector_text(scope: Scope, nest: Nest, index: Index, rank: int) -> str:
    names = {}
    for atom, _ in index.terms:
        if not isinstance(atom, Var):
            names[Index(((atom, 1),))] = scope.vector(nest, Index(((atom, 1),)))
    wide = is_wide(nest, index)
    parts = []
    for atom, coefficient in index.terms:
        name = names.get(Index(((atom, 1),)))
        text = name or index_text(Index(((atom, 1),)), str)
        text = f"tl.cast({text}, tl.int64)" if wide else text
        parts.append(text if coefficient == 1 else f"{text} * {coefficient}")
    text = " + ".join(parts)
    return text if text.isidentifier() or rank == 1 else f"({text})"


def placed_index(scope: Scope, nest: Nest, index: Index, space: Space) -> str:
    """Write an index along several tile groups, or along one that loops move: a vector for each
    group, placed in ``space``, and a scalar."""
    if is_wide(nest, index):
        return index_text(index, spelled(nest, space), wide=True, names=scope.scalars)
    texts = []
    for group, vector in _vectors(nest, index):
        terms = _named_terms(scope, nest, vector)
        terms = terms if len(vector.terms) == 1 and "*" not in terms else f"({terms})"
        texts.append(expand(terms, space.index(group), len(space)))
    rest = Index(
        tuple(t for t in index.terms if len(groups_of(nest, Index((t,)))) != 1), index.constant
    )
    if rest != Index():
        texts.append(_bracketed(index_text(rest, spelled(nest, space), names=scope.scalars)))
    return " + ".join(texts) or "0"


def _vectors(nest: Nest, index: Index) -> list[tuple[int, Index]]:
    """Return the terms of ``index`` along one tile group alone, by group and by whether serial
    loops move them."""
    found = dict[tuple[int, bool], Index]()
    for term in index.terms:
        one = Index((term,))
        groups = groups_of(nest, one)
        if len(groups) == 1:
            where = groups[0], _moves(nest, one)
            found[where] = found.get(where, Index()) + one
    return [(group, vector) for (group, _), vector in found.items()]


def _named_terms(scope: Scope, nest: Nest, index: Index) -> str:
    parts = []
    for atom, coefficient in index.terms:
        name = scope.vector(nest, Index(((atom, 1),)))
        parts.append(name if coefficient == 1 else f"{name} * {coefficient}")
    return " + ".join(parts)


def name_conditions(scope: Scope, nest: Nest, conditions: tuple[Condition, ...]) -> None:
    """Write the indices that conditions test, as far as serial loops leave them alone."""
    for condition in conditions:
        if len(groups_of(nest, condition.index)) == 1:
            vector, _ = _halves(nest, condition.index)
            if vector == condition.index or any(not isinstance(a, Var) for a, _ in vector.terms):
                scope.vector(nest, vector)
        else:
            for _, vector in _vectors(nest, condition.index):
                if not _moves(nest, vector):
                    _named_terms(scope, nest, vector)


def mask_text(scope: Scope, nest: Nest, conditions: tuple[Condition, ...], space: Space) -> str:
    """Return the conjunction of ``conditions`` broadcast into ``space``; empty without any."""
    return " & ".join(
        test for condition in conditions for test in _tests(scope, nest, condition, space)
    )


def _tests(scope: Scope, nest: Nest, condition: Condition, space: Space) -> list[str]:
    groups = groups_of(nest, condition.index)
    alone = len(groups) == 1
    if alone and all(isinstance(atom, Var) for atom, _ in condition.index.terms):
        fixed = not _moves(nest, condition.index)
        text = scope.vector(nest, condition.index) if fixed else index_text(condition.index, str)
    elif alone:
        vector, moved = _halves(nest, condition.index)
        text = scope.vector(nest, vector)
        if moved != Index():
            text = f"{text} + {_bracketed(scalar_text(scope, nest, moved))}"
    else:
        text = placed_index(scope, nest, condition.index, space)
    text = text if text.isidentifier() else f"({text})"
    tests = []
    for bound, sign in ((condition.low, ">="), (condition.high, "<")):
        if bound is not None:
            test = f"({text} {sign} {bound})"
            tests.append(expand(test, space.index(groups[0]), len(space)) if alone else test)
    return tests


def _halves(nest: Nest, index: Index) -> tuple[Index, Index]:
    """Cut an index along one tile group into a vector, and what serial loops add to it.

    Where loops change nothing, the whole is the vector. A constant goes to the scalar.
    """
    fixed = tuple(term for term in index.terms if not _moves(nest, Index((term,))))
    if len(fixed) == len(index.terms) or any(
        groups_of(nest, Index((term,))) for term in index.terms if term not in fixed
    ):
        return index, Index()
    vector = tuple(term for term in fixed if groups_of(nest, Index((term,))))
    rest = tuple(term for term in index.terms if term not in vector)
    return Index(vector), Index(rest, index.constant)


def _moves(nest: Nest, index: Index) -> bool:
    return any(name in nest.loops and nest.extents[name] > 1 for name in axes_of(index))


def _bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _descriptor_load(scope: Scope, nest: Nest, read: Read, space: Space) -> str:
    text = f"{scope.descriptor(nest, read)}.load([{_coordinates(scope, nest, read)}])"
    order = _groups_along(nest, read)
    if len(order) < len(read.index):
        shape = ", ".join(str(nest.group_extent(g)) for g in order)
        text = f"{text}.reshape({shape})"
    return text if order == space else f"{text}.T"


def _descriptor_store(scope: Scope, nest: Nest, target: Read, value: str, space: Space) -> None:
    name = scope.descriptor(nest, target)
    order = _groups_along(nest, target)
    box = access.box(nest, target)
    if order != space:
        value = f"{value}.T"
    if len(box) != len(order):
        value = f"{value}.reshape({', '.join(map(str, box))})"
    scope.lines.add(f"{name}.store([{_coordinates(scope, nest, target)}], {value})")


def _groups_along(nest: Nest, read: Read) -> Space:
    """Return the tile groups of a box, outermost first: several dimensions may be of one group."""
    along = (g for form in read.index for g in access.groups_in(nest, form))
    return tuple(dict.fromkeys(along))


def _coordinates(scope: Scope, nest: Nest, read: Read) -> str:
    scalars = (scalar_part(nest, nest.resolve(form)) for form in read.index)
    return ", ".join(index_text(index, str, names=scope.scalars) for index in scalars)
