"""Which axes of a product are batch, M, N and K. Read off where they occur, nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from search_space import access
from search_space.expr import Affine, Read, reads
from search_space.workload import Axis, Tensor, Workload

#: The longest axis that a block holds whole.
LARGEST_WHOLE = 512


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two plain reads, with its axes by role, outermost first.

    An axis in both operands and the output is batch; in ``a`` and the output M; in ``b`` and the
    output N; in both operands only K. ``b`` is the operand that holds the output's last dimension.
    """

    a: Read
    b: Read
    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: tuple[Axis, ...]
    #: Axes that later statements reduce over: a block must hold the whole of them.
    whole: tuple[Axis, ...] = ()

    @property
    def windowed(self) -> tuple[Read, ...]:
        """The operands that are read at other positions than plain axes, through windows."""
        return tuple(r for r in (self.a, self.b) if not all(form.single for form in r.index))


def contraction(workload: Workload) -> Contraction | str:
    """Return the roles of ``workload``'s axes, or one sentence on why it is no contraction."""
    stage = workload.stages[0]
    operands = access.product(stage)
    if operands is None:
        return "its first stage is not a sum of products of two tensors"
    for read in (*operands, Read(stage.output, stage.index)):
        found = [axis for form in read.index for axis in form.axes]
        if len(set(found)) < len(found):
            return f"an axis occurs twice in the index of {read.tensor!r}"
    return _assign(workload, *operands, stage.index)


def _assign(workload: Workload, a: Read, b: Read, output: tuple[Affine, ...]) -> Contraction | str:
    in_a, in_b, in_c = (_axes(index) for index in (a.index, b.index, output))
    if _axes(output[-1:]) & (in_a - in_b):
        a, b, in_a, in_b = b, a, in_b, in_a
    roles: dict[str, list[Axis]] = {"batch": [], "m": [], "n": [], "k": []}
    for axis in workload.axes:
        held = (axis.name in in_a, axis.name in in_b, axis.name in in_c)
        role = _ROLES.get(held)
        if role is None:
            return f"axis {axis.name!r} is summed over one operand alone"
        roles[role].append(axis)
    if not roles["m"] or not roles["n"]:
        return "one operand holds no output axis of its own"
    if not roles["k"]:
        return "nothing is summed"
    whole = _reduced_later(workload)
    for axis in whole:
        if axis not in (*roles["m"], *roles["n"]) or axis.extent > LARGEST_WHOLE:
            return f"it is reduced again over axis {axis.name!r}, more than a block holds"
    batch, m, n, k = (tuple(roles[role]) for role in ("batch", "m", "n", "k"))
    return Contraction(a, b, batch, m, n, k, whole)


def _reduced_later(workload: Workload) -> tuple[Axis, ...]:
    """Return the axes that statements after the first reduce over."""
    names: set[str] = set()
    for stage in workload.stages[1:]:
        if stage.reducer:
            inside = {name for form in stage.index for name in form.axes}
            forms = [form for read in reads(stage.value) for form in read.index]
            names |= {name for form in forms for name in form.axes} - inside
    return tuple(axis for axis in workload.axes if axis.name in names)


_ROLES = {
    (True, True, True): "batch",
    (True, False, True): "m",
    (False, True, True): "n",
    (True, True, False): "k",
}


def _axes(index: tuple[Affine, ...]) -> set[str]:
    return {name for form in index for name in form.axes}


@dataclass(frozen=True)
class Blocking:
    """A contraction with the axes chosen to be held in blocks: one each of M, N and K.

    One of them may be ``fused`` of several, outermost first: a new axis that runs over all their
    combinations.
    """

    workload: Workload
    roles: Contraction
    m: Axis
    n: Axis
    k: Axis
    fused: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)

    @property
    def a(self) -> Tensor:
        """The operand that holds M."""
        return self.workload.tensors[self.roles.a.tensor]

    @property
    def b(self) -> Tensor:
        """The operand that holds N."""
        return self.workload.tensors[self.roles.b.tensor]

    @property
    def others(self) -> tuple[Axis, ...]:
        """The spatial axes that are not held in blocks, outermost first."""
        roles, held = self.roles, (*self.parts(self.m), *self.parts(self.n))
        return tuple(x for x in (*roles.batch, *roles.m, *roles.n) if x not in held)

    @property
    def outer_k(self) -> tuple[Axis, ...]:
        """The reduction axes that are not held in blocks, outermost first: the taps of a window."""
        return tuple(x for x in self.roles.k if x not in self.parts(self.k))

    def parts(self, axis: Axis) -> tuple[Axis, ...]:
        """Return the axes of the workload that ``axis`` is fused of, or itself."""
        return self.fused.get(axis.name, (axis,))

    def name(self, axis: Axis, suffix: str) -> str:
        """Return a name for what becomes of ``axis`` that nothing in the workload bears."""
        return self.fresh(f"{axis.name}{suffix}")

    def fresh(self, name: str) -> str:
        """Return ``name``, lengthened if something in the workload bears it."""
        taken = {*self.workload.extents, *self.workload.tensors}
        while name in taken:
            name = f"{name}_"
        return name


def blocking(workload: Workload, roles: Contraction) -> Blocking:
    """Choose the axes to hold in blocks."""
    a, b = (workload.tensors[read.tensor] for read in (roles.a, roles.b))
    output = (workload.output, Read("", workload.stages[-1].index))
    return Blocking(
        workload,
        roles,
        _primary(_whole_first(roles.m, roles), (a, roles.a), output),
        _primary(_whole_first(roles.n, roles), output, (b, roles.b)),
        _primary(roles.k, (a, roles.a), (b, roles.b)),
    )


def fused_blocking(workload: Workload, roles: Contraction, *, taps: bool) -> Blocking | str:
    """Choose what is held in blocks where a side has several axes: all of M as one axis, and all of
    N; of K the longest that both operands have plainly, with ``taps`` all of it.

    Returns one sentence where a side must be held whole.
    """
    if roles.whole:
        return f"a block holds the whole of {roles.whole[0].name!r}, beside which nothing fuses"
    plain = [x for x in roles.k if all(_plainly(x, read) for read in (roles.a, roles.b))]
    if not taps and not plain:
        return "no reduced axis is read plainly by both operands"
    sides = [roles.m, roles.n, _as_stored(roles) if taps else _longest(plain)]
    fused = dict[str, tuple[Axis, ...]]()
    chosen = list[Axis]()
    for axes in sides:
        made, axis = fuse(workload, axes)
        fused |= made
        chosen.append(axis)
    return Blocking(workload, roles, chosen[0], chosen[1], chosen[2], fused)


def fuse(workload: Workload, axes: tuple[Axis, ...]) -> tuple[dict[str, tuple[Axis, ...]], Axis]:
    """Return the axis that runs over all combinations of ``axes``, and what it is fused of: nothing
    where there is but one."""
    if len(axes) == 1:
        return {}, axes[0]
    name = _fused_name(workload, axes)
    return {name: axes}, Axis(name, extent_of(axes), axes[0].kind)


def live(workload: Workload, form: Affine) -> Affine:
    """Return ``form`` without the axes that have one value alone."""
    extents = workload.extents
    return Affine.of({a: c for a, c in form.terms if extents[a] > 1}, form.constant)


def _plainly(axis: Axis, read: Read) -> bool:
    return any(form.single == axis.name for form in read.index)


def _longest(axes: list[Axis]) -> tuple[Axis, ...]:
    return (max(axes, key=lambda axis: axis.extent),)


def _as_stored(roles: Contraction) -> tuple[Axis, ...]:
    """Return the axes of K in the order in which an operand without windows stores them."""
    plain = next((r for r in (roles.b, roles.a) if r not in roles.windowed), roles.b)
    order = [axis for form in plain.index for axis in form.axes]
    return tuple(sorted(roles.k, key=lambda axis: order.index(axis.name)))


def _fused_name(workload: Workload, axes: tuple[Axis, ...]) -> str:
    name = "_".join(axis.name for axis in axes)
    while name in workload.extents or name in workload.tensors:
        name += "_"
    return name


def _whole_first(axes: tuple[Axis, ...], roles: Contraction) -> tuple[Axis, ...]:
    """Return the axes to choose from: those that a block must hold whole, if there are any."""
    return tuple(axis for axis in axes if axis in roles.whole) or axes


def _primary(axes: tuple[Axis, ...], *reads: tuple[Tensor, Read]) -> Axis:
    """Return the axis to hold in blocks: one that is contiguous in a tensor, else the longest."""
    for tensor, read in reads:
        if tensor.strides[-1] == 1:
            for axis in axes:
                if read.index[-1].single == axis.name and axis.extent > 1:
                    return axis
    return max(axes, key=lambda axis: axis.extent)


def extent_of(axes: tuple[Axis, ...]) -> int:
    """Return the product of the extents of ``axes``."""
    return math.prod(axis.extent for axis in axes)
