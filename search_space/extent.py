"""One axis made longer or shorter: the workload, and a program that was rendered for the longer.

A **free axis** runs through a workload without mixing: it is spatial, every tensor that has it has
it in one dimension, and every access to that dimension is the axis itself. Each slice of the output
then depends on the same slice of the inputs alone: rows of a product, batches, images.

A program that reaches tensors of a free axis by descriptors only computes fewer slices than it was
rendered for, as it stands: a descriptor knows the extent of its tensor, gives zeros beyond it and
writes nothing there. So a shorter extent changes the launch plan and no kernel's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from search_space.dtype import size_bytes
from search_space.expr import Affine, reads
from search_space.program import Argument, Buffer, DescriptorArgument, Kernel, Program
from search_space.workload import Tensor, Workload, contiguous_strides

#: What the strides of a descriptor are multiples of, bytes.
DESCRIPTOR_STRIDE_BYTES = 16


class CannotNarrow(ValueError):
    """A workload or a program that cannot be shortened; the message says why."""


def free_axes(workload: Workload) -> tuple[str, ...]:
    """Return the free axes, by the dimension of the output that they are."""
    return tuple(a.name for a in workload.axes if _dimensions(workload, a.name) is not None)


def resized(workload: Workload, axis: str, extent: int) -> Workload:
    """Return ``workload`` with another extent of a free axis, every tensor without gaps.

    Raises CannotNarrow where the axis is not free or a tensor has gaps.
    """
    where = _dimensions(workload, axis)
    if where is None:
        raise CannotNarrow(f"{axis!r} is not an axis that runs through without mixing")

    def resize(tensor: Tensor) -> Tensor:
        if tensor.strides != contiguous_strides(tensor.shape):
            raise CannotNarrow(f"{tensor.name!r} has gaps")
        shape = _put(tensor.shape, where.get(tensor.name), extent)
        return replace(tensor, shape=shape, strides=contiguous_strides(shape))

    axes = tuple(replace(a, extent=extent) if a.name == axis else a for a in workload.axes)
    return replace(
        workload,
        axes=axes,
        inputs=tuple(map(resize, workload.inputs)),
        intermediates=tuple(map(resize, workload.intermediates)),
        output=resize(workload.output),
        label="",
    )


def narrowed(program: Program, wide: Workload, axis: str, narrow: Workload) -> Program:
    """Return ``program``, rendered for ``wide``, as it computes ``narrow``: the same kernels.

    ``narrow`` is ``wide`` with a smaller extent of the free ``axis``. Workspaces stay as large as
    they are. Raises CannotNarrow where that cannot be proven to be right: an input or the output
    with the axis is reached by a pointer, or by a descriptor of anything but the tensor as it is.
    """
    extent = narrow.extents.get(axis, 0)
    if not 0 < extent <= wide.extents.get(axis, 0) or resized(wide, axis, extent) != narrow:
        raise CannotNarrow("the workloads do not differ in a shorter extent alone")
    where = _dimensions(wide, axis) or {}
    outer = {t.name: t for t in (*narrow.inputs, narrow.output) if t.name in where}
    old = {buffer.name: buffer for buffer in program.buffers}
    for name, tensor in outer.items():
        _check_strides(name, tensor)
        if old[name].zeroed or old[name].shape != wide.tensors[name].shape:
            raise CannotNarrow(f"{name!r} is another tensor in the program than in the workload")

    def argument(given: Argument) -> Argument:
        tensor = outer.get(given.buffer)
        if tensor is None:
            return given
        if not isinstance(given, DescriptorArgument):
            raise CannotNarrow(f"{given.buffer!r} is reached by a pointer")
        buffer = old[given.buffer]
        if (given.shape, given.strides) != (buffer.shape, buffer.strides):
            raise CannotNarrow(f"{given.buffer!r} is seen in another shape than it has")
        return replace(given, shape=tensor.shape, strides=tensor.strides)

    def kernel(given: Kernel) -> Kernel:
        return replace(given, arguments=tuple(map(argument, given.arguments)))

    def buffer(given: Buffer) -> Buffer:
        tensor = outer.get(given.name)
        return replace(given, shape=tensor.shape, strides=tensor.strides) if tensor else given

    return replace(
        program,
        buffers=tuple(map(buffer, program.buffers)),
        kernels=tuple(map(kernel, program.kernels)),
        workload_key=narrow.key,
    )


def _dimensions(workload: Workload, axis: str) -> Mapping[str, int] | None:
    """Return the dimension that is ``axis``, by tensor; None where the axis is not free."""
    if workload.elsewhere is not None:
        return None
    found: dict[str, int] = {}
    accesses = list(_accesses(workload))
    for tensor, index in accesses:
        for dimension, form in enumerate(index):
            if axis not in form.axes:
                continue
            if form.single != axis or found.setdefault(tensor, dimension) != dimension:
                return None
    extent = workload.extents[axis]
    for tensor, index in accesses:
        if tensor not in found:
            continue
        place = found[tensor]
        if index[place].single != axis or workload.tensors[tensor].shape[place] != extent:
            return None
    mixes = any(
        stage.output not in found and any(read.tensor in found for read in reads(stage.value))
        for stage in workload.stages
    )
    return None if mixes or workload.output.name not in found else found


def _accesses(workload: Workload) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    for stage in workload.stages:
        yield stage.output, stage.index
        for read in reads(stage.value):
            yield read.tensor, read.index


def _put(shape: tuple[int, ...], dimension: int | None, extent: int) -> tuple[int, ...]:
    return tuple(extent if d == dimension else e for d, e in enumerate(shape))


def _check_strides(name: str, tensor: Tensor) -> None:
    if any(s * size_bytes(tensor.dtype) % DESCRIPTOR_STRIDE_BYTES for s in tensor.strides[:-1]):
        raise CannotNarrow(f"{name!r} has strides that no descriptor takes")
