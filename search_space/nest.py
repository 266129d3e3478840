"""A nest: one computation as axes, accesses and statements, and what steps have made of it.

A nest only holds state; ``search_space.apply`` changes it. Accesses stay written in the axes of
the workload; ``definitions`` says what became of an axis, and ``resolve`` looks through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from search_space.dtype import accumulator
from search_space.expr import Affine, reads
from search_space.index import Index, axes_of, from_affine, substitute, variable
from search_space.workload import Axis, Precision, Stage, Tensor, Workload

Via = Literal["pointer", "descriptor"]


@dataclass(frozen=True)
class Nest:
    """Axes, statements over them, and the decisions taken so far.

    ``axes`` holds every axis that ever was; those in ``definitions`` have been split or fused
    away, the others are *leaves*. A leaf is bound to the grid, held in a tile group, or a serial
    loop. ``statements`` share the spatial axes; the last one stores.
    """

    name: str
    axes: tuple[Axis, ...]
    tensors: tuple[Tensor, ...]
    #: Tensors that live in registers alone.
    intermediates: tuple[str, ...]
    statements: tuple[Stage, ...]
    precision: Precision
    definitions: Mapping[str, Index] = field(default_factory=dict)
    #: Axes whose leaves can run past their extent.
    overhangs: tuple[str, ...] = ()
    guards: Mapping[str, Literal["mask", "wrap"]] = field(default_factory=dict)
    grid: tuple[str, ...] = ()
    swizzle: int = 1
    multiprocessors: int = 0
    per_multiprocessor: int = 0
    groups: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    unrolled: tuple[str, ...] = ()
    vectors: Mapping[str, int] = field(default_factory=dict)
    cache_reads: Mapping[str, Via] = field(default_factory=dict)
    store: Via = "pointer"
    parts: int = 1
    tensorized: bool = False
    swap: bool = False
    #: Sums are kept for every point of the block until the serial loops are over.
    late: bool = False
    #: The first operand of the product is read from registers, not from shared memory.
    registers: bool = False
    #: What stands for an axis of which the nest computes only a part, by that axis: the part is
    #: the axis' beginning or its end, and other nests compute the others.
    peeled: Mapping[str, str] = field(default_factory=dict)
    #: Which turn the nest has among those of a schedule: packing is at -1, joining at 1.
    turn: int = 0
    #: The tensors that were packed, by the name of their packed copies.
    packed: Mapping[str, str] = field(default_factory=dict)
    #: The buffers that views are of, by the views' names.
    views: Mapping[str, str] = field(default_factory=dict)
    #: The grid axis that stands for a share of a reduction, and the buffer in which its programs
    #: count themselves where the last to arrive joins the shares.
    part: str = ""
    counter: str = ""
    #: The store adds to what is there; its buffer must be zeroed before.
    atomic: bool = False
    stages: int = 1
    warps: int = 4

    @property
    def extents(self) -> dict[str, int]:
        """The extent of every axis by name."""
        return {axis.name: axis.extent for axis in self.axes}

    @property
    def kinds(self) -> dict[str, str]:
        """Spatial or reduction, for every axis by name."""
        return {axis.name: axis.kind for axis in self.axes}

    @property
    def tensor(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @property
    def leaves(self) -> tuple[str, ...]:
        """Axes that have been neither split nor fused."""
        return tuple(axis.name for axis in self.axes if axis.name not in self.definitions)

    @property
    def tile_axes(self) -> tuple[str, ...]:
        """The leaves that are held in a block."""
        return tuple(name for group in self.groups for name in group)

    @property
    def loops(self) -> tuple[str, ...]:
        """The serial loops, outermost first: leaves neither on the grid nor in a block."""
        taken = {*self.grid, *self.tile_axes}
        free = [name for name in self.leaves if name not in taken]
        return tuple(
            [n for n in self.order if n in free] + [n for n in free if n not in self.order]
        )

    @property
    def repeated(self) -> tuple[str, ...]:
        """The spatial axes that are unrolled: statements are repeated for each of their steps."""
        free = (name for name in self.loops if name in self.unrolled)
        return tuple(name for name in free if self.kinds[name] == "spatial")

    @property
    def persistent(self) -> bool:
        """Whether a program walks through several points of the grid."""
        return self.per_multiprocessor > 0

    @property
    def output(self) -> Tensor:
        """The tensor that the last statement stores."""
        return self.tensor[self.statements[-1].output]

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """The stored tensors that statements before the last write."""
        written = [self.tensor[stage.output] for stage in self.statements[:-1]]
        return tuple(tensor for tensor in written if tensor.name not in self.intermediates)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The stored tensors that are read, in the order of ``tensors``."""
        used = {read.tensor for stage in self.statements for read in reads(stage.value)}
        return tuple(t for t in self.tensors if t.name in used and t.name not in self.intermediates)

    def buffer(self, tensor: str) -> str:
        """Return the name of the buffer that holds ``tensor``: itself, or what it is a view of."""
        return self.views.get(tensor, tensor)

    def resolve(self, form: Affine | str, instead: Mapping[str, Index] | None = None) -> Index:
        """Return an index, or an axis by name, in terms of leaves; leaves of extent 1 are 0.

        ``instead`` gives axes another definition than what became of them.
        """
        index = variable(form) if isinstance(form, str) else from_affine(form)
        ones = {n: Index() for n in self.leaves if self.extents[n] == 1}
        return substitute(index, {**self.definitions, **ones, **(instead or {})}, self.extents)

    def ancestors(self, form: Affine) -> set[str]:
        """Return the axes of ``form`` and every axis that they are defined by, down to leaves."""
        found: set[str] = set()
        pending = list(form.axes)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(axes_of(self.definitions.get(name, Index())))
        return found

    def group_of(self, axis: str) -> int | None:
        """Return the number of the tile group that holds ``axis``, or None."""
        for number, group in enumerate(self.groups):
            if axis in group:
                return number
        return None

    def group_extent(self, number: int) -> int:
        """Return the extent of a tile group: the product over its axes."""
        extent = 1
        for name in self.groups[number]:
            extent *= self.extents[name]
        return extent

    def reduction_axes(self, stage: Stage) -> tuple[str, ...]:
        """Return the axes of the workload that a statement reduces over."""
        left = {name for form in stage.index for name in self.ancestors(form)}
        used = {n for read in reads(stage.value) for form in read.index for n in form.axes}
        return tuple(axis.name for axis in self.axes if axis.name in used - left)

    def compute_dtype(self) -> str:
        """Return the dtype in which statements compute: the widest accumulator of the inputs, or
        of the output where nothing is read."""
        dtypes = [accumulator(tensor.dtype) for tensor in self.inputs or (self.output,)]
        return next((d for d in ("float64", "float32") if d in dtypes), dtypes[0])


def initial_nests(workload: Workload) -> tuple[Nest, ...]:
    """Return the nests of ``workload`` with nothing decided, from which steps start.

    Where the last stage does not reach all of the output, a second nest writes every element of
    it first.
    """
    main = initial(workload)
    if workload.elsewhere is None:
        return (main,)
    axes = workload.element_axes
    index = tuple(Affine.axis(axis.name) for axis in axes)
    named = {read.tensor for read in reads(workload.elsewhere)}
    fill = Nest(
        name=f"{main.name}_fill",
        axes=axes,
        tensors=(*(t for t in workload.inputs if t.name in named), workload.output),
        intermediates=(),
        statements=(Stage(workload.output.name, index, workload.elsewhere),),
        precision=workload.precision,
        turn=-1,
    )
    return main, fill


def initial(workload: Workload) -> Nest:
    """Return the nest of ``workload`` with nothing decided."""
    return Nest(
        name="kernel",
        axes=workload.axes,
        tensors=tuple(workload.tensors.values()),
        intermediates=tuple(t.name for t in workload.intermediates),
        statements=workload.stages,
        precision=workload.precision,
    )
