"""Left sides at affine positions: values placed there, and sums scattered to them.

A sum scattered to ``s*y + d*r - p`` is gathered instead, residue class by residue class
(docs/adr/0005-any-affine-expression.md): with g = gcd(s, d), r = (s/g) t + u and q = y + (d/g) t
the element is ``s*q + d*u - p``, which no other q and u name. Knows nothing of operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.te.error import IllegalExpression
from autosched.te.fold import folded
from autosched.te.name import fresh_name
from autosched.te.position import check_integer, merge_axes, position
from autosched.te.reduction import Reduction
from autosched.te.tensor import Computed, define
from autosched.te.value import value
from search_space.expr import Affine, Call, Const, Expr, Read, reads, rewrite
from search_space.workload import Axis, Stage, Workload


def scatter(shape: Sequence[int], index: object, body: object, name: str) -> Computed:
    """Add ``body`` up at the positions ``index`` of a tensor of ``shape``, over all of its axes::

        y, r, c = te.axis(8, "y"), te.axis(3, "r"), te.reduce_axis(4, "c")
        Y = te.scatter((17,), 2 * y + r, X[y, c] * W[c, r], "Y")

    A position holds one ``te.axis``, or two with positive factors. What falls outside is dropped;
    an element that nothing falls on is 0. Raises IllegalExpression.
    """
    forms, axes = left_side(name, index)
    for form in forms:
        if any(factor < 1 for _, factor in form.terms):
            raise IllegalExpression(
                f"{name!r} is summed at {_text(form)}: axes on the left are added, with factors "
                "of 1 or more"
            )
    inner = value(body)
    reduced = tuple(axis for axis in inner.axes if axis not in axes)
    return define(name, axes, Reduction("sum", inner, reduced), forms, _shape(name, shape, forms))


def place(shape: Sequence[int], index: object, body: object, name: str) -> Computed:
    """Put ``body`` at the positions ``index`` of a tensor of ``shape``; outside it is dropped.

    No two points may share an element. An element that none has holds ``body`` with every sum
    in it 0, which must not depend on more than the element's own position. Raises
    IllegalExpression.
    """
    forms, axes = left_side(name, index)
    return define(name, axes, value(body), forms, _shape(name, shape, forms))


def left_side(name: str, index: object) -> tuple[tuple[Affine, ...], tuple[Axis, ...]]:
    """Return the forms of a left side and its axes, ordered by place; raises IllegalExpression.

    Within a form the larger factor goes first.
    """
    given = index if isinstance(index, tuple) else (index,)
    positions = [position(one) for one in given]
    axes: list[Axis] = []
    for one in positions:
        if not 1 <= len(one.axes) <= 2:
            raise IllegalExpression(
                f"{name!r} is written at {_text(one.form)}: a position on the left holds one "
                "axis or two; give a fixed one an axis of extent 1"
            )
        for axis in one.axes:
            if axis.kind != "spatial":
                raise IllegalExpression(
                    f"axis {axis.name!r} is reduced and on the left of {name!r}"
                )
            if axis in axes:
                raise IllegalExpression(f"axis {axis.name!r} stands twice on the left of {name!r}")
        axes += sorted(one.axes, key=lambda a: (-dict(one.form.terms)[a.name], -a.extent))
    return tuple(one.form for one in positions), merge_axes([tuple(axes)])


def least_shape(forms: Sequence[Affine], axes: Sequence[Axis]) -> tuple[int, ...]:
    """Return the extents that just hold all positions from 0 on."""
    extents = {axis.name: axis.extent for axis in axes}
    return tuple(max(1, form.bounds(extents)[1] + 1) for form in forms)


def _shape(name: str, shape: Sequence[int], forms: tuple[Affine, ...]) -> tuple[int, ...]:
    if len(shape) != len(forms):
        raise IllegalExpression(
            f"{name!r} has {len(shape)} dimension(s), but {len(forms)} position(s) are given"
        )
    return tuple(check_integer(extent, f"an extent of {name!r}") for extent in shape)


def _text(form: Affine) -> str:
    return " + ".join([*(f"{c}*{a}" for a, c in form.terms), str(form.constant)])


# From a scattered sum to residue classes ------------------------------------------------------


@dataclass(frozen=True)
class Gathered:
    """A scattered sum as a gathered one: its stage, its axes, and where each point goes."""

    stage: Stage
    #: Spatial axes in the order of the output's dimensions.
    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    places: tuple[Affine, ...]


@dataclass(frozen=True)
class _Classes:
    """One dimension: what stands for its axes, and the axes that those forms are over."""

    forms: Mapping[str, Affine]
    spatial: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    place: Affine


def gather(
    tensor: Computed, stage: Stage, elements: Sequence[str], extents: Mapping[str, int]
) -> Gathered:
    """Return the scattered sum ``tensor``, whose ``stage`` is resolved, as a gathered one.

    ``elements`` names the axis of what reads it, dimension by dimension: a dimension written at
    a plain axis keeps that name. ``extents`` are those of all axes. Raises IllegalExpression.
    """
    taken = {*extents, *elements}
    kept = {n for n, f in zip(elements, stage.index, strict=True) if f.single is not None}
    summed = {a for read in reads(stage.value) for f in read.index for a in f.axes}
    summed -= {axis.name for axis in tensor.axes}
    found: list[_Classes] = []
    for number, form in enumerate(stage.index):
        if form.single is not None and extents[form.single] == tensor.extents[number]:
            axis = Axis(elements[number], tensor.extents[number], "spatial")
            own = {form.single: Affine.axis(axis.name)}
            found.append(_Classes(own, (axis,), (), Affine.axis(axis.name)))
            continue
        # A sum over nothing would be no accumulator: one axis stays, if of extent 1.
        last = number == len(stage.index) - 1
        needed = last and not summed and not any(c.reduced for c in found)
        names = (taken, kept)
        found.append(_classes(tensor, stage, form, number, extents, names, needed=needed))
        taken |= {axis.name for axis in (*found[-1].spatial, *found[-1].reduced)}
    forms = {name: form for one in found for name, form in one.forms.items()}
    spatial = tuple(axis for one in found for axis in one.spatial)

    def change(node: Expr) -> Expr:
        if isinstance(node, Read):
            return Read(node.tensor, tuple(form.substitute(forms) for form in node.index))
        return node

    index = tuple(Affine.axis(axis.name) for axis in spatial)
    gathered = replace(stage, index=index, value=rewrite(stage.value, change))
    reduced = tuple(axis for one in found for axis in one.reduced)
    return Gathered(gathered, spatial, reduced, tuple(one.place for one in found))


def _classes(
    tensor: Computed,
    stage: Stage,
    form: Affine,
    number: int,
    extents: Mapping[str, int],
    names: tuple[set[str], set[str]],
    *,
    needed: bool,
) -> _Classes:
    """Cut one affine dimension into residue classes, whichever axis is the shorter as the taps."""
    plain = _plain_factors(stage, tensor, extents)
    order = sorted(form.terms, key=lambda term: (-extents[term[0]], -term[1]))
    attempts = [order, order[::-1]][: len(order)]
    for attempt in attempts:
        made = _attempt(tensor, attempt, form.constant, number, extents, names, plain, needed)
        if made is not None:
            return made
    either = " or ".join(repr(name) for name, _ in order)
    raise IllegalExpression(
        f"{tensor.name!r} is summed at {_text(form)}, which takes a product in which an input is "
        f"read at {either} itself, so that positions past its ends count for nothing"
    )


def _plain_factors(stage: Stage, tensor: Computed, extents: Mapping[str, int]) -> set[str]:
    """Return the axes past whose ends a factor of the stage's value is read out of range."""
    tensors = tensor.value.tensors or {}
    found = set()
    for factor in _factors(stage.value):
        if isinstance(factor, Read):
            shape = tensors[factor.tensor].shape
            for form, extent in zip(factor.index, shape, strict=True):
                if form.single is not None and extents[form.single] == extent:
                    found.add(form.single)
    return found


def _factors(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call) and expr.function == "mul":
        for arg in expr.args:
            yield from _factors(arg)
    else:
        yield expr


def _attempt(
    tensor: Computed,
    terms: Sequence[tuple[str, int]],
    constant: int,
    number: int,
    extents: Mapping[str, int],
    names: tuple[set[str], set[str]],
    plain: set[str],
    needed: bool,
) -> _Classes | None:
    """Take the first of ``terms`` as the position y and the second as the tap r.

    None if a value would then be summed past an end that nothing is read beyond.
    """
    (y, s), (r, d) = terms[0], terms[1] if len(terms) > 1 else ("", 1)
    taps, out = extents.get(r, 1), tensor.extents[number]
    common = math.gcd(s, d)
    period, shift = s // common, d // common
    classes = min(period, taps)
    steps = -(-taps // period)
    # The first q that reaches an element of the last class, and the last of the first class.
    start = -((d * (classes - 1) + constant) // s)
    length = (out - 1 - constant) // s - start + 1
    if length < 1:
        raise IllegalExpression(
            f"{tensor.name!r} has 0 to {out - 1} in dimension {number}, and no position "
            f"{_text(Affine.of(dict(terms), constant))} is there"
        )
    low, high = start - shift * (steps - 1), start + length - 1
    if (low < 0 or high >= extents[y]) and y not in plain:
        return None
    if period * (steps - 1) + classes > taps and r not in plain:
        return None
    taken, kept = names
    q = Axis(fresh_name(y, frozenset(taken)) if y in kept else y, length, "spatial")
    taken = taken | {q.name}
    name = r or fresh_name("t", frozenset(taken))
    t = [Axis(name, steps, "reduction")] if steps > 1 or needed else []
    u = [Axis(fresh_name(f"u{name}"[:30], frozenset(taken)), classes, "spatial")] * (classes > 1)
    step, residue = _sum_of(t), _sum_of(u)
    position_of_y = Affine.axis(q.name) + step.scale(-shift) + Affine((), start)
    forms = {y: position_of_y, **({r: step.scale(period) + residue} if r else {})}
    goes = Affine.axis(q.name).scale(s) + residue.scale(d) + Affine((), s * start + constant)
    ordered = sorted((q, *u), key=lambda a: (-dict(goes.terms)[a.name], -a.extent))
    return _Classes(forms, tuple(ordered), tuple(t), goes)


def _sum_of(axes: Iterable[Axis]) -> Affine:
    total = Affine(())
    for axis in axes:
        total = total + Affine.axis(axis.name)
    return total


# Stores at affine positions --------------------------------------------------------------------


def check_places(name: str, places: Sequence[Affine], extents: Mapping[str, int]) -> None:
    """Refuse two points that share an element; raises IllegalExpression."""
    for form in places:
        if len(form.terms) < 2:
            continue
        (one, s), (other, d) = form.terms
        common = math.gcd(s, d)
        if abs(d) // common < extents[one] and abs(s) // common < extents[other]:
            raise IllegalExpression(
                f"{name!r} is written at {_text(form)}, where points share elements: += adds them"
            )


def reaches_all(places: Sequence[Affine], shape: Sequence[int], extents: Mapping[str, int]) -> bool:
    """Whether points at ``places``, no two of them alike, write every element of ``shape``."""
    return all(_reached(f, e, extents) == e for f, e in zip(places, shape, strict=True))


def _reached(form: Affine, extent: int, extents: Mapping[str, int]) -> int:
    """Count the points of a form of one or two axes that lie within an extent."""
    *walked, (longest, step) = sorted(form.terms, key=lambda term: extents[term[0]])
    offsets: tuple[int, ...] = (form.constant,)
    for axis, factor in walked:
        offsets = tuple(form.constant + factor * i for i in range(extents[axis]))
    total = 0
    for offset in offsets:
        first, last = (-offset, extent - 1 - offset)
        if step < 0:
            first, last = -last, -first
        low, high = -(-first // abs(step)), last // abs(step)
        total += max(0, min(high, extents[longest] - 1) - max(low, 0) + 1)
    return total


def elsewhere(workload: Workload) -> Expr:
    """Return what elements hold that the last stage of ``workload`` leaves: its value with every
    sum 0, over ``element_axes``. Raises IllegalExpression."""
    last, intermediates = workload.stages[-1], {t.name for t in workload.intermediates}
    elements = [Affine.axis(axis.name) for axis in workload.element_axes]
    at = dict(zip(last.index, elements, strict=True))
    own = {f.single: at[f] for f in last.index if f.single is not None}

    def change(node: Expr) -> Expr:
        if not isinstance(node, Read):
            return node
        if node.tensor in intermediates:
            return Const(0.0)
        index = []
        for form in node.index:
            if form not in at and any(axis not in own for axis in form.axes):
                raise IllegalExpression(
                    f"{last.output!r} is not written everywhere, and {node.tensor!r}, read at "
                    f"{_text(form)}, does not say what it holds elsewhere; += leaves 0 there"
                )
            index.append(at[form] if form in at else form.substitute(own))
        return Read(node.tensor, tuple(index))

    return folded(rewrite(last.value, change))
