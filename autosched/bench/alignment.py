"""Which workloads can be loaded in whole vectors, for means that do not mix what is not alike."""

from __future__ import annotations

from typing import Literal

from search_space.dtype import size_bytes
from search_space.expr import reads
from search_space.workload import Tensor, Workload

#: What a descriptor, and the widest load, want of every row stride.
VECTOR_BYTES = 16
Kind = Literal["aligned", "unaligned", "ieee"]


def kind(workload: Workload) -> Kind | None:
    """Return "ieee" for float32 computed as such, else whether all is aligned.

    None where no product of matrices is summed: through windows, or of no two tensors.

    Aligned: every row stride of every tensor is a multiple of 16 bytes, and where tensor cores
    take float8, int8 or tf32 operands, each of them lies along the reduced axis.
    """
    if not _is_product(workload):
        return None
    narrow = {tensor.dtype for tensor in workload.inputs} & {"float8_e4m3", "int8"}
    if workload.inputs[0].dtype == "float32" and workload.precision != "tf32":
        return "ieee"
    rows = all(map(_rows_aligned, (*workload.inputs, workload.output)))
    along = not (narrow or workload.precision == "tf32") or _reduced_axis_is_last(workload)
    return "aligned" if rows and along else "unaligned"


def _is_product(workload: Workload) -> bool:
    stage = workload.stages[0]
    places = (stage.index, *(read.index for read in reads(stage.value)))
    plain = all(form.single is not None for index in places for form in index)
    return stage.reducer == "sum" and len(places) == 3 and plain


def _rows_aligned(tensor: Tensor) -> bool:
    size = size_bytes(tensor.dtype)
    pairs = zip(tensor.shape, tensor.strides, strict=True)
    return all(s * size % VECTOR_BYTES == 0 for extent, s in pairs if extent > 1 and s != 1)


def _reduced_axis_is_last(workload: Workload) -> bool:
    product = workload.stages[0]
    kept = {axis for form in product.index if (axis := form.single) is not None}
    for read in reads(product.value):
        strides = workload.tensors[read.tensor].strides
        if not any(
            stride == 1 and form.single not in kept
            for form, stride in zip(read.index, strides, strict=True)
        ):
            return False
    return True
