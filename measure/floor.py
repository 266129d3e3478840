"""The least time that the data sheet permits. Knows nothing of kernels or schedules."""

from __future__ import annotations

from search_space.expr import reads
from search_space.target import Target
from search_space.workload import Workload

#: A time below this share of what the data sheet permits is an error of measurement.
SHARE = 0.9


def least_us(workload: Workload, target: Target) -> float:
    """Return the microseconds below which a time of ``workload`` is impossible.

    The larger of arithmetic at the peak rate and of reading every input once from memory; the
    output may stay in the cache. 0.9 of it, as clocks may exceed the data sheet's.
    """
    rate = _rate(workload, target)
    arithmetic_s = workload.operations / rate if rate else 0.0
    read_bytes = sum(tensor.size_bytes for tensor in workload.inputs)
    return SHARE * 1e6 * max(arithmetic_s, read_bytes / target.memory_bytes_per_s)


def _rate(workload: Workload, target: Target) -> float | None:
    """Return the peak rate of the workload's sums, or None where the target states none.

    Exact float32 products may be formed by three tf32 ones.
    """
    rates = target.operations_per_s
    for stage in workload.stages:
        if stage.reducer == "sum" and (operands := reads(stage.value)):
            dtype = workload.tensors[operands[0].tensor].dtype
            if dtype == "float32" and workload.precision == "tf32":
                return rates.get("tf32")
            if dtype == "float32":
                return max(rates.get("float32", 0.0), rates.get("tf32", 0.0) / 3) or None
            return rates.get(dtype)
    return None
