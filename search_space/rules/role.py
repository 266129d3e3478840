"""Which axes of a product are batch, M, N and K. Read off where they occur, nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def contraction(workload: Workload) -> Contraction | str:
    """Return the roles of ``workload``'s axes, or one sentence on why it is no contraction."""
    stage = workload.stages[0]
    operands = access.product(stage)
    if operands is None:
        return "its first stage is not a sum of products of two tensors"
    for read in (*operands, Read(stage.output, stage.index)):
        if not all(form.single for form in read.index):
            return f"an index of {read.tensor!r} is not one axis alone"
        if len({form.single for form in read.index}) < len(read.index):
            return f"an axis occurs twice in the index of {read.tensor!r}"
    return _assign(workload, *operands, stage.index)


def _assign(workload: Workload, a: Read, b: Read, output: tuple[Affine, ...]) -> Contraction | str:
    in_a, in_b, in_c = (_axes(index) for index in (a.index, b.index, output))
    if output and output[-1].single in in_a - in_b:
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
    """A contraction with the axes chosen to be held in blocks: one each of M, N and K."""

    workload: Workload
    roles: Contraction
    m: Axis
    n: Axis
    k: Axis

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
        roles = self.roles
        return tuple(x for x in (*roles.batch, *roles.m, *roles.n) if x not in (self.m, self.n))

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
