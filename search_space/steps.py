"""The vocabulary of schedules: one frozen value per primitive transformation of a nest.

Steps are data. ``search_space.apply`` gives them their meaning and refuses illegal ones. In a
sketch a field may hold ``Open(name)``, a choice not yet made; in a schedule none does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Open:
    """A choice not yet made: stands for an integer of the domain of that name."""

    choice: str


Int = int | Open


@dataclass(frozen=True, slots=True)
class Split:
    """Cut an axis into an outer and an inner one, ``axis = outer * factor + inner``.

    The last outer step may overhang; accesses then wrap or are masked (see ``Guard``)::

        for k in K:            ->   for k0 in ceil(K / factor):
                                      for k1 in factor:
    """

    axis: str
    outer: str
    inner: str
    factor: Int
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Fuse:
    """Join axes, outermost first, into one that runs over all their combinations::

        for r in R:            ->   for rs in R * S:
          for s in S:

    The fused axis counts the combinations in that order.
    """

    axes: tuple[str, ...]
    fused: str
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Bind:
    """Give axes to the grid, the last one fastest: each program gets one point of them.

    ``swizzle`` > 1 walks the last two axes in bands of that many steps of the first of them, so
    that programs running together share operands in L2.
    """

    axes: tuple[str, ...]
    swizzle: Int = 1
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Persist:
    """Start only ``per_multiprocessor`` programs on each of ``multiprocessors``; each walks
    through many points of the grid in one flattened loop."""

    multiprocessors: int
    per_multiprocessor: Int = 1
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Tile:
    """Hold axes as the dimensions of a block. Each group of axes is one dimension."""

    groups: tuple[tuple[str, ...], ...]
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """The serial loops that remain, outermost first."""

    axes: tuple[str, ...]
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Guard:
    """How loads treat positions past the end of a spatial axis: read as zero under a mask, or
    wrap around to valid elements whose results are dropped at the store."""

    axis: str
    mode: Literal["mask", "wrap"]
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Vectorize:
    """Promise that accesses along ``axis`` move ``width`` neighbouring elements at once.

    Refused where the axis is not contiguous, or its rows are not aligned to that width.
    """

    tensor: str
    axis: str
    width: int
    nest: int = 0


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Bring a tensor's tile on chip before it is used: by pointers (asynchronous copies), or by
    a descriptor (the bulk copy engine, which reads zero out of range)."""

    tensor: str
    via: Literal["pointer", "descriptor"]
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Pack:
    """Copy a tensor into a workspace first, its dimensions in ``order`` (outermost first) and its
    rows padded to whole ``row_bytes``; a nest that runs before does the copying.

    With the order that the tensor has, this is padding alone.
    """

    tensor: str
    into: str
    order: tuple[int, ...]
    row_bytes: int = 16
    nest: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Address a tensor, an input or the output, through other dimensions: ``into`` is another name
    for the same memory. Dimension n of the view is made of the dimensions ``dims[n]``, outermost
    first, which must lie within one another.

    ``phases`` gives a step for each dimension: one that is read at ``2*x + r`` and has phase 2
    is counted in twos, so that x steps by 1. What is left, r % 2, moves the last dimension where
    that lies directly within (``[h, w, c]`` becomes ``[2, h / 2, w / 2, 2 c]``), and is a
    dimension in front of all others elsewhere.
    """

    tensor: str
    into: str
    dims: tuple[tuple[int, ...], ...]
    phases: tuple[int, ...] = ()
    nest: int = 0


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Write the output's tile by pointers or by a descriptor, in ``parts`` slices of its last
    dimension; an epilogue is evaluated slice by slice."""

    via: Literal["pointer", "descriptor"]
    parts: Int = 1
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Tensorize:
    """Compute the reduction of a product of two tiles on the tensor cores.

    ``swap`` makes the second tile the first operand, computing the transposed tile. With
    ``registers`` the first operand passes through registers on its way from shared memory, so
    that it may lie either way where the tensor cores read shared memory in one way alone.
    """

    swap: bool = False
    registers: bool = False
    nest: int = 0


@dataclass(frozen=True, slots=True)
class ReduceLate:
    """Keep a sum for every point of the block while serial loops run, and add them along the
    reduced groups once, after the loops: threads exchange nothing in between::

        for k0:                        ->   for k0:
          acc[n] += sum(x[n, k1])             held[n, k1] += x[n, k1]
                                            acc[n] = sum(held[n, k1])
    """

    nest: int = 0


@dataclass(frozen=True, slots=True)
class SplitReduction:
    """Let ``parts`` programs share one reduction axis; a second nest joins their sums.

    The axis becomes ``part`` (a grid axis to bind) and ``rest``. Partial sums or maxima go to a
    float32 workspace with a slot per part, or sums are added atomically into one zeroed workspace.
    With "counter" there is no second nest: the parts count themselves, and the last one to arrive
    joins the slots, over an axis called ``part`` with "_all" behind it.
    """

    axis: str
    part: str
    rest: str
    parts: Int
    via: Literal["workspace", "atomic", "counter"]
    #: ``rest`` is made of whole blocks of this many elements.
    block: Int
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Peel:
    """Compute the end of a spatial axis in a nest of its own, ``axis = body`` before ``at`` and
    ``axis = at + rest`` from there on, each with a schedule of its own::

        for i in I:            ->   for body in at:          for rest in I - at:
                                      ... i = body             ... i = at + rest

    The nest of the rest is appended and runs after. So a last row of blocks that would hold little
    but padding need not cost a wave of its own.
    """

    axis: str
    body: str
    rest: str
    at: Int
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Unroll:
    """Repeat the body of a serial loop instead of looping, so that its steps are numbers.

    Of a spatial axis every statement is repeated, each with a block of its own: first all sums,
    then all stores. What several of these blocks read at the same place is loaded once::

        for u:                 ->   acc_0, acc_1 = 0, 0
          acc = 0                   for k:
          for k:                      acc_0 += x[k] * w[0, k]
            acc += x[k] * w[u, k]     acc_1 += x[k] * w[1, k]
          y[u] = acc                y[0], y[1] = acc_0, acc_1
    """

    axis: str
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Keep the loads of ``stages`` iterations of the innermost loop in flight."""

    stages: Int
    nest: int = 0


@dataclass(frozen=True, slots=True)
class Warps:
    """How many warps run one program."""

    count: Int
    nest: int = 0


Step = (
    Split
    | Fuse
    | Bind
    | Persist
    | Tile
    | Order
    | Guard
    | Vectorize
    | CacheRead
    | Pack
    | View
    | CacheWrite
    | Tensorize
    | ReduceLate
    | SplitReduction
    | Peel
    | Unroll
    | Pipeline
    | Warps
)
STEPS: dict[str, type[Any]] = {
    step.__name__: step
    for step in (
        Split,
        Fuse,
        Bind,
        Persist,
        Tile,
        Order,
        Guard,
        Vectorize,
        CacheRead,
        Pack,
        View,
        CacheWrite,
        Tensorize,
        ReduceLate,
        SplitReduction,
        Peel,
        Unroll,
        Pipeline,
        Warps,
    )
}


def close(step: Step, choices: Mapping[str, int]) -> Step:
    """Return ``step`` with every open choice replaced by its value in ``choices``."""
    return _map_open(step, lambda open_: choices[open_.choice])


def open_choices(step: Step) -> tuple[str, ...]:
    """Return the names of the choices that ``step`` leaves open."""
    values = (getattr(step, f.name) for f in fields(step))
    return tuple(value.choice for value in values if isinstance(value, Open))


def _map_open(step: Step, change: Callable[[Open], int]) -> Step:
    held = {f.name: getattr(step, f.name) for f in fields(step)}
    changed: dict[str, Any] = {n: change(v) for n, v in held.items() if isinstance(v, Open)}
    return replace(step, **changed) if changed else step
