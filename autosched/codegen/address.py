"""Where the elements of a block lie: offsets cut by what they depend on, and the conditions
under which they exist. Pure arithmetic on indices; writes no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from search_space import access
from search_space.expr import Affine, Read
from search_space.index import Index, axes_of, interval, joined, remainder, substitute
from search_space.nest import Nest


@dataclass(frozen=True)
class Condition:
    """``low <= index < high``; a bound that always holds is None."""

    index: Index
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Address:
    """The offsets of a block in elements, cut into four sums.

    ``base`` is the same for the whole block and all iterations, ``vectors`` has one vector per
    tile group, ``step`` changes with the serial loops alone, and ``mixed`` is what is left. Where
    loops are unrolled a constant belongs to ``step``: other steps may read the same place.
    """

    base: Index
    vectors: Mapping[int, Index]
    step: Index
    mixed: Index
    conditions: tuple[Condition, ...]
    #: The tile groups along which the block runs, in the order of ``Nest.groups``.
    groups: tuple[int, ...]


def address(nest: Nest, read: Read, *, load: bool) -> Address:
    """Return where the block of ``read`` lies. Loads wrap the axes whose guard says so."""
    tensor = nest.tensor[read.tensor]
    total = Index()
    for form, stride in zip(read.index, tensor.strides, strict=True):
        total = total + _position(nest, form, load=load).scale(stride)
    total = joined(total) if nest.inputs else _filled(nest, read)
    base, step, mixed, vectors = Index(), Index(), Index(), dict[int, Index]()
    for atom, coefficient in total.terms:
        term = Index(((atom, coefficient),))
        groups = groups_of(nest, term)
        looped = any(name in nest.loops for name in axes_of(term))
        if not groups:
            base, step = (base, step + term) if looped else (base + term, step)
        elif len(groups) == 1 and not looped:
            vectors[groups[0]] = vectors.get(groups[0], Index()) + term
        else:
            mixed = mixed + term
    if load and nest.unrolled:
        step = step + Index((), total.constant)
    else:
        base = base + Index((), total.constant)
    conditions = tuple(_conditions(nest, read, load=load))
    touched = [g for c in conditions for g in groups_of(nest, c.index)]
    touched += [g for form in read.index for g in access.groups_in(nest, form)]
    return Address(base, vectors, step, mixed, conditions, tuple(sorted(set(touched))))


def _filled(nest: Nest, read: Read) -> Index:
    """Return the offset of a block of what is filled: one that lies densely and has been fused
    has no need of its dimensions."""
    named = {axis for form in read.index for axis in form.axes}
    fused = {axis: form for axis, form in nest.definitions.items() if axis in named}
    total = Index()
    for form, stride in zip(read.index, nest.tensor[read.tensor].strides, strict=True):
        total = total + replace(nest, definitions=fused).resolve(form).scale(stride)
    ones = {name: Index() for name in nest.leaves if nest.extents[name] == 1}
    return substitute(joined(total), {**nest.definitions, **ones}, nest.extents)


def groups_of(nest: Nest, index: Index) -> tuple[int, ...]:
    """Return the tile groups whose axes occur in ``index``, sorted."""
    found = {nest.group_of(name) for name in axes_of(index)}
    return tuple(sorted(g for g in found if g is not None))


def wrapped_axes(nest: Nest) -> set[str]:
    """Return the axes that overhang and wrap around instead of being masked."""
    return {axis for axis in nest.overhangs if nest.guards.get(axis) == "wrap"}


def wrapped_axis(nest: Nest, index: Index) -> str | None:
    """Return the axis of the computation that ``index`` is once axes that wrap are taken around."""
    found = (a for a in nest.definitions if _position(nest, Affine.axis(a), load=True) == index)
    return next(found, None)


def _position(nest: Nest, form: Affine, *, load: bool) -> Index:
    """Return where ``form`` points, axes that wrap taken around."""
    wraps = wrapped_axes(nest) if load else set()
    around = {a: remainder(nest.resolve(a), nest.extents[a], nest.extents) for a in wraps}
    return nest.resolve(form, around)


def _range(nest: Nest, form: Affine, guarded: set[str], *, load: bool) -> tuple[int, int]:
    """Return the least and the greatest position where ``guarded`` axes stay within extents, over
    all steps of what is unrolled: equal positions are tested alike."""
    left = guarded | set(nest.unrolled)
    kept = {axis: form for axis, form in nest.definitions.items() if axis not in left}
    within = replace(nest, definitions=kept)
    return interval(_position(within, form, load=load), nest.extents)


def _conditions(nest: Nest, read: Read, *, load: bool) -> list[Condition]:
    wraps = wrapped_axes(nest) if load else set()
    found: list[Condition] = []
    for number, form in enumerate(read.index):
        guarded = (nest.ancestors(form) & set(nest.overhangs)) - wraps
        extent = nest.tensor[read.tensor].shape[number]
        tests = _tests(nest, form, extent, guarded, load=load)
        if load and len(form.terms) > 1:
            # What is loaded past a spatial axis is stored nowhere: to be in range is enough.
            reduced = {axis for axis in guarded if nest.kinds[axis] == "reduction"}
            tests = min(_tests(nest, form, extent, reduced, load=load), tests, key=_bounds)
        found += tests
    return _joined(found)


def _joined(conditions: list[Condition]) -> list[Condition]:
    """Return one condition for each index: the narrowest of its bounds."""
    joined = dict[Index, Condition]()
    for new in conditions:
        known = joined.get(new.index, new)
        lows = [c.low for c in (known, new) if c.low is not None]
        highs = [c.high for c in (known, new) if c.high is not None]
        joined[new.index] = Condition(new.index, max(lows, default=None), min(highs, default=None))
    return list(joined.values())


def _tests(
    nest: Nest, form: Affine, extent: int, guarded: set[str], *, load: bool
) -> list[Condition]:
    """Return what to test of one dimension where ``guarded`` axes are held within extents."""
    tests = [Condition(nest.resolve(a), None, nest.extents[a]) for a in sorted(guarded)]
    low, high = _range(nest, form, guarded, load=load)
    below, beyond = low < 0, high >= extent
    if below or beyond:
        position = _position(nest, form, load=load)
        tests.append(Condition(position, 0 if below else None, extent if beyond else None))
    return tests


def _bounds(conditions: list[Condition]) -> int:
    return sum((c.low is not None) + (c.high is not None) for c in conditions)
