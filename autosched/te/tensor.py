"""Tensors to read: placeholders, given from outside, and computed ones.

Knows which reads are legal; nothing of how computed tensors become the stages of a workload.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autosched.te.error import IllegalExpression
from autosched.te.layout import check_layout
from autosched.te.name import check_name
from autosched.te.position import (
    Position,
    axis_position,
    check_integer,
    merge_axes,
    new_axis,
    position,
)
from autosched.te.reduction import Reduction
from autosched.te.value import Value, check_dtype, value
from search_space.dtype import accumulator
from search_space.expr import Affine, Read, reads
from search_space.workload import Axis, Reducer, Tensor


@dataclass(frozen=True, eq=False)
class Placeholder:
    """An input as stored. ``t[i, j]`` reads it; out of range only where padding is meant."""

    tensor: Tensor

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.tensor.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, outermost first."""
        return self.tensor.shape

    def __getitem__(self, index: object) -> Value:
        forms, axes = _positions(self.name, self.shape, index)
        dtype = accumulator(self.tensor.dtype)
        return Value(Read(self.name, forms), dtype, axes, {self.name: self})


@dataclass(frozen=True, eq=False)
class Computed:
    """A tensor defined by ``value`` at every point of ``axes``, reduced over ``reduced``.

    With ``places``, affine forms of ``axes``, the point goes to the element there instead: into a
    tensor of ``extents``, added up if there is a reducer. See ``scatter``.
    """

    name: str
    axes: tuple[Axis, ...]
    value: Value
    reducer: Reducer | None = None
    reduced: tuple[Axis, ...] = ()
    places: tuple[Affine, ...] | None = None
    extents: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, outermost first."""
        if self.places is not None:
            return self.extents
        return tuple(axis.extent for axis in self.axes)

    @property
    def dtype(self) -> str:
        """What the value is computed in, and rounded to if nothing else is said."""
        return self.value.dtype or "float32"

    def __getitem__(self, index: object) -> Value:
        forms, axes = _positions(self.name, self.shape, index)
        extents = {axis.name: axis.extent for axis in axes}
        for form, extent in zip(forms, self.shape, strict=True):
            low, high = form.bounds(extents)
            if low < 0 or high >= extent:
                raise IllegalExpression(
                    f"{self.name!r} is computed: it is read from {low} to {high} where it has "
                    f"0 to {extent - 1}, and only inputs are read out of range"
                )
        inlined = self.reducer is None
        return Value(
            Read(self.name, forms),
            self.value.dtype,
            axes,
            {self.name: self},
            self.value.nodes if inlined else 1,
            self.value.depth if inlined else 1,
        )


#: What values read.
Source = Placeholder | Computed


def placeholder(
    shape: Sequence[int],
    name: str,
    dtype: str,
    strides: Sequence[int] | None = None,
    alignment_bytes: int = 16,
) -> Placeholder:
    """Declare an input; shape and strides in elements, outermost first, row-major by default.

    A stride of 0 repeats one element. Raises IllegalExpression.
    """
    tensor = Tensor(
        check_name(name, "tensor"),
        tuple(shape),
        check_dtype(dtype),
        tuple(strides or ()),
        alignment_bytes,
    )
    check_layout(tensor)
    return Placeholder(tensor)


def compute(
    shape: Sequence[int], fn: Callable[..., Value | Reduction | float], name: str
) -> Computed:
    """Define a tensor by a function of one position per dimension; its axes get the names of
    the function's parameters. Raises IllegalExpression::

        acc = compute((m, n), lambda i, j: sum(A[i, k] * B[k, j], axis=k), "acc")
    """
    parameters = list(inspect.signature(fn).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names = [f"i{d}" for d in range(len(shape))]
    else:
        names = [p.name for p in parameters]
    if len(names) != len(shape):
        raise IllegalExpression(
            f"{name!r} has {len(shape)} dimensions, but its function takes {len(names)} positions"
        )
    pairs = zip(names, shape, strict=True)
    axes = tuple(new_axis(axis_name, extent, "spatial") for axis_name, extent in pairs)
    return define(name, axes, fn(*map(axis_position, axes)))


def define(
    name: str,
    axes: tuple[Axis, ...],
    body: object,
    places: tuple[Affine, ...] | None = None,
    extents: tuple[int, ...] = (),
) -> Computed:
    """Return the tensor of ``body`` (a value or a reduction) over ``axes``; checks every read.

    ``places`` and ``extents`` are those of ``Computed``.
    """
    check_name(name, "tensor")
    if isinstance(body, Reduction):
        result = Computed(name, axes, body.value, body.reducer, body.axes, places, extents)
    else:
        result = Computed(name, axes, value(body), None, (), places, extents)
    known = merge_axes((axes, result.reduced))
    for axis in merge_axes((known, result.value.axes)):
        if axis not in known:
            raise IllegalExpression(f"{name!r} does not reduce over axis {axis.name!r}")
    if name in (result.value.tensors or {}):
        raise IllegalExpression(f"{name!r} is both read and defined, rename one")
    if result.reducer is None:
        _check_in_range(result)
    return result


def _check_in_range(tensor: Computed) -> None:
    extents = {axis.name: axis.extent for axis in tensor.axes}
    # Points whose place lies outside are dropped, whatever they read.
    dropped = set(zip(tensor.places or (), tensor.extents, strict=True))
    for read in reads(tensor.value.expr):
        shape = (tensor.value.tensors or {})[read.tensor].shape
        for form, extent in zip(read.index, shape, strict=True):
            if (form, extent) in dropped:
                continue
            low, high = form.bounds(extents)
            if low < 0 or high >= extent:
                raise IllegalExpression(
                    f"{read.tensor!r} is read from {low} to {high} where it has 0 to "
                    f"{extent - 1}: without a reduction nothing says what lies outside"
                )


def _positions(
    name: str, shape: tuple[int, ...], index: object
) -> tuple[tuple[Affine, ...], tuple[Axis, ...]]:
    given = index if isinstance(index, tuple) else (index,)
    if len(given) != len(shape):
        raise IllegalExpression(
            f"{name!r} has {len(shape)} dimension(s), but {len(given)} index(es) are given"
        )
    positions = tuple(position(thing) for thing in given)
    axes = merge_axes(p.axes for p in positions)
    for dimension, place in enumerate(positions):
        _check_position(name, dimension, shape[dimension], place)
    return tuple(place.form for place in positions), axes


def _check_position(name: str, dimension: int, extent: int, place: Position) -> None:
    """Have a plain axis cover its dimension, and only what has an offset written leave it."""
    extents = {axis.name: axis.extent for axis in place.axes}
    low, high = place.form.bounds(extents)
    where = f"dimension {dimension} of {name!r}"
    single = place.form.single
    if single is not None and extents[single] != extent and not place.padded:
        raise IllegalExpression(
            f"axis {single!r} has extent {extents[single]}, but {where} has {extent}"
        )
    if high < 0 or low >= extent:
        raise IllegalExpression(
            f"{where} has 0 to {extent - 1}, but every read, from {low} to {high}, lies outside"
        )
    if (low < 0 or high >= extent) and not place.padded:
        raise IllegalExpression(
            f"{where} has 0 to {extent - 1}, but is read from {low} to {high}; padding is said "
            "by an offset, if only + 0"
        )
    check_integer(max(abs(low), abs(high)), f"the farthest read along {where}")
