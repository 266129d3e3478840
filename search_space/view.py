"""Views: a tensor addressed through other dimensions than it was declared with. Nothing is copied.

A view is a tensor of the nest like any other, with strides of its own into the same buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from search_space import access
from search_space.demand import names_of, need_fresh
from search_space.expr import Affine, Read
from search_space.index import Index, axes_of, from_affine, interval, parts_of, quotient, remainder
from search_space.nest import Nest
from search_space.refusal import refuse
from search_space.steps import View
from search_space.workload import Axis, Tensor


@dataclass(frozen=True)
class _Dimension:
    """One dimension of a view: its extent, its stride in elements, and what indexes it."""

    extent: int
    stride: int
    form: Affine


def view(nest: Nest, step: View) -> tuple[Nest, ...]:
    """Return the nest that addresses a tensor through the view."""
    need_fresh(nest, step, step.into)
    read = _the_access(nest, step)
    tensor = nest.tensor[step.tensor]
    phases = step.phases or (1,) * len(tensor.shape)
    if sorted(d for group in step.dims for d in group) != list(range(len(tensor.shape))):
        refuse(step, f"{step.dims} does not name each of {len(tensor.shape)} dimensions once")
    if len(phases) != len(tensor.shape) or min(phases, default=1) < 1:
        refuse(step, f"{phases} are no steps of {len(tensor.shape)} dimensions")
    parts = _Parts(nest, step, tensor, read)
    for number, phase in enumerate(phases):
        parts.cut(number, phase)
    dimensions = [*parts.front, *(parts.joined(group) for group in step.dims)]
    made = replace(
        tensor,
        name=step.into,
        shape=tuple(d.extent for d in dimensions),
        strides=tuple(d.stride for d in dimensions),
    )
    seen = Read(step.into, tuple(d.form for d in dimensions))
    return (
        replace(
            nest,
            axes=(*nest.axes, *parts.axes),
            definitions={**nest.definitions, **parts.definitions},
            tensors=(*nest.tensors, made),
            statements=access.replaced(nest.statements, read, seen),
            views={**nest.views, step.into: nest.buffer(step.tensor)},
        ),
    )


def _the_access(nest: Nest, step: View) -> Read:
    last = nest.statements[-1]
    if step.tensor == last.output:
        return Read(last.output, last.index)
    if step.tensor not in {tensor.name for tensor in nest.inputs}:
        refuse(step, f"{step.tensor!r} is not read; inputs: {names_of(nest.inputs)}")
    found = access.reads_of(nest, step.tensor)
    if len(found) != 1:
        refuse(step, f"{step.tensor!r} is read at {len(found)} positions, a view has one")
    return found[0]


class _Parts:
    """The dimensions of a tensor, each cut in two where it is walked through in steps."""

    def __init__(self, nest: Nest, step: View, tensor: Tensor, read: Read) -> None:
        self.nest, self.step, self.tensor = nest, step, tensor
        forms = [
            Affine.of({a: c for a, c in form.terms if nest.resolve(a) != Index()}, form.constant)
            for form in read.index
        ]
        #: The axis that a dimension is read at, if it is one alone.
        self.axis = [of.single or form.single for of, form in zip(read.index, forms, strict=True)]
        self.dims = [
            _Dimension(*of) for of in zip(tensor.shape, tensor.strides, forms, strict=True)
        ]
        #: The phases that became dimensions of their own.
        self.front: list[_Dimension] = []
        self.axes: list[Axis] = []
        self.definitions: dict[str, Index] = {}

    def cut(self, number: int, phase: int) -> None:
        """Count dimension ``number`` in steps of ``phase``: position = phase * whole + rest.

        The rest goes to the last dimension where that one lies directly within and is never left,
        else to a dimension of its own; it vanishes where it is always 0.
        """
        if phase == 1:
            return
        extent, stride, form = self._fields(number)
        steps = Affine.of({a: c // phase for a, c in form.terms if c % phase == 0})
        over = Affine.of({a: c for a, c in form.terms if c % phase}, form.constant)
        whole, rest = self._divided(number, over, phase)
        if extent % phase and rest != Affine(()):
            refuse(self.step, f"dimension {number} of {extent} does not end with a step of {phase}")
        self.dims[number] = _Dimension(-(-extent // phase), stride * phase, steps + whole)
        if rest == Affine(()):
            return
        within = self.dims[-1]
        inner = len(self.dims) - 1
        if number == inner - 1 and stride == within.extent * within.stride and self._inside(inner):
            self.dims[-1] = _Dimension(
                phase * within.extent, within.stride, within.form + rest.scale(within.extent)
            )
        else:
            self.front.append(_Dimension(phase, stride, rest))

    def joined(self, group: tuple[int, ...]) -> _Dimension:
        """Return dimensions that lie within one another as one."""
        if not group:
            refuse(self.step, "a dimension of the view is made of none")
        held = [n for n in group if not self._is_one(n)] or [group[-1]]
        *outer, last = held
        total, form = self.dims[last].extent, self.dims[last].form
        for number in reversed(outer):
            extent, stride, own = self._fields(number)
            if stride != total * self.dims[last].stride:
                refuse(self.step, f"dimensions {group} of {self.tensor.name!r} leave gaps")
            form, total = form + own.scale(total), total * extent
        fused = self._fused(group) or self._fused(held)
        for number in held[1:] if fused is None else ():
            self._need_inside(number)
        return _Dimension(total, self.dims[last].stride, fused or form)

    def _is_one(self, number: int) -> bool:
        """Whether a dimension has one element alone, and that one is read."""
        extent, _, form = self._fields(number)
        return extent == 1 and self._resolved(form) == Index()

    def _fused(self, group: Sequence[int]) -> Affine | None:
        """Return the axis that runs over dimensions which are read at what it was fused of."""
        axes = [self.axis[n] for n in group]
        extents = [self.dims[n].extent for n in group]
        definitions, nest = self.nest.definitions, self.nest
        names = set[str]()
        for axis, extent in zip(axes, extents, strict=True):
            if axis is None or axis not in definitions or nest.extents[axis] != extent:
                return None
            names |= set(axes_of(definitions[axis]))
        fused = names.pop()
        parts = [definitions[axis] for axis in axes if axis is not None]
        return Affine.axis(fused) if parts == parts_of(fused, extents) else None

    def _resolved(self, form: Affine) -> Index:
        known = {**self.nest.definitions, **self.definitions}
        axes = (*self.nest.axes, *self.axes)
        return replace(self.nest, axes=axes, definitions=known).resolve(form)

    def _fields(self, number: int) -> tuple[int, int, Affine]:
        held = self.dims[number]
        return held.extent, held.stride, held.form

    def _inside(self, number: int) -> bool:
        """Whether no position is past the ends of a dimension."""
        extent, _, form = self._fields(number)
        low, high = interval(self._resolved(form), self.nest.extents)
        return low >= 0 and high < extent

    def _need_inside(self, number: int) -> None:
        """Refuse positions past a dimension's ends, which would be others' in the view."""
        if not self._inside(number):
            refuse(self.step, f"dimension {number} of {self.tensor.name!r} is left")

    def _divided(self, number: int, over: Affine, phase: int) -> tuple[Affine, Affine]:
        """Return ``over // phase`` and ``over % phase``, as axes of their own where they are not
        affine."""
        if not over.terms:
            return Affine((), over.constant // phase), Affine((), over.constant % phase)
        first = self.nest.statements[0]
        if not set(over.axes) <= set(self.nest.reduction_axes(first)):
            refuse(self.step, f"dimension {number} of {self.tensor.name!r} has no whole steps")
        low, high = over.bounds(self.nest.extents)
        shift = max(0, -(low // phase))
        value = from_affine(over) + Index((), shift * phase)
        extents = self.nest.extents
        names = [f"{self.step.into}_{part}{number}" for part in ("step", "phase")]
        need_fresh(self.nest, self.step, *names)
        found: Mapping[str, Index] = {
            names[0]: quotient(value, phase, extents),
            names[1]: remainder(value, phase, extents),
        }
        self.definitions |= found
        most = (math.ceil((high + 1) / phase) + shift, phase)
        self.axes += [Axis(n, e, "reduction") for n, e in zip(names, most, strict=True)]
        return Affine.axis(names[0]) + Affine((), -shift), Affine.axis(names[1])
