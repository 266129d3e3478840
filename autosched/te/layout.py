"""How tensors lie in memory: checks, and the same workload over other strides or alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.te.error import IllegalExpression
from autosched.te.position import LARGEST, check_integer
from search_space.dtype import size_bytes
from search_space.workload import Tensor, Workload

#: The largest alignment that can be promised.
MOST_ALIGNED_BYTES = 256
DEEPEST_RANK = 8
#: In what a result over inputs of a dtype is stored where nobody says; else in the same.
_WIDER_STORE = {"float8_e4m3": "bfloat16", "int8": "int32"}


def default_store(dtype: str) -> str:
    """Return the dtype in which a result over inputs of ``dtype`` is stored by default."""
    return _WIDER_STORE.get(dtype, dtype)


def stored(
    workload: Workload,
    tensor: str,
    *,
    strides: Sequence[int] | None = None,
    alignment_bytes: int | None = None,
) -> Workload:
    """Return ``workload`` with an input, or the output, stored another way: another key.

    Strides in elements, outermost first; a stride of 0 repeats one element (inputs only).
    Raises IllegalExpression.
    """
    outer = {t.name: t for t in (*workload.inputs, workload.output)}
    if tensor not in outer:
        raise IllegalExpression(f"there is no stored tensor {tensor!r}; there are {list(outer)}")
    changed = replace(
        outer[tensor],
        strides=outer[tensor].strides if strides is None else tuple(strides),
        alignment_bytes=alignment_bytes or outer[tensor].alignment_bytes,
    )
    check_layout(changed, written=tensor == workload.output.name)
    inputs = tuple(changed if t.name == tensor else t for t in workload.inputs)
    output = changed if tensor == workload.output.name else workload.output
    return replace(workload, inputs=inputs, output=output)


def check_layout(tensor: Tensor, *, written: bool = False) -> None:
    """Raise IllegalExpression unless ``tensor`` can lie in memory as it says.

    A written one must have a place for every element: no two indices share one.
    """
    _check_shape(tensor)
    if len(tensor.strides) != len(tensor.shape):
        raise IllegalExpression(
            f"{tensor.name!r} has {len(tensor.shape)} dimension(s) but {len(tensor.strides)} "
            "stride(s)",
            ("strides",),
        )
    for stride in tensor.strides:
        if check_integer(stride, f"a stride of {tensor.name!r}") < 0:
            raise IllegalExpression(
                f"{tensor.name!r} has stride {stride}, the least is 0", ("strides",)
            )
    reach = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    if reach >= LARGEST:
        raise IllegalExpression(
            f"{tensor.name!r} reaches {reach + 1} elements far, the limit is 2**40", ("strides",)
        )
    if written and not _injective(tensor):
        raise IllegalExpression(
            f"{tensor.name!r} is written, but its strides {list(tensor.strides)} make indices "
            "share an element",
            ("strides",),
        )
    _check_alignment(tensor)


def _check_shape(tensor: Tensor) -> None:
    if len(tensor.shape) > DEEPEST_RANK:
        raise IllegalExpression(
            f"{tensor.name!r} has {len(tensor.shape)} dimensions, the limit is {DEEPEST_RANK}",
            ("shape",),
        )
    for extent in tensor.shape:
        if check_integer(extent, f"an extent of {tensor.name!r}") < 1:
            raise IllegalExpression(
                f"{tensor.name!r} has extent {extent}, the least is 1", ("shape",)
            )
    if tensor.elements > LARGEST:
        raise IllegalExpression(
            f"{tensor.name!r} has {tensor.elements} elements, the limit is 2**40", ("shape",)
        )


def _check_alignment(tensor: Tensor) -> None:
    aligned = check_integer(tensor.alignment_bytes, f"the alignment of {tensor.name!r}")
    least = size_bytes(tensor.dtype)
    if not least <= aligned <= MOST_ALIGNED_BYTES or aligned & (aligned - 1):
        raise IllegalExpression(
            f"{tensor.name!r} is aligned to {aligned} bytes; for {tensor.dtype} it is a power of "
            f"two from {least} to {MOST_ALIGNED_BYTES}",
            ("alignment_bytes",),
        )


def _injective(tensor: Tensor) -> bool:
    """Sufficient: ordered by stride, each step passes all that the smaller ones reach."""
    reach = 0
    for stride, extent in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if extent > 1:
            if stride <= reach:
                return False
            reach += stride * (extent - 1)
    return True
