"""The time below which data and arithmetic cannot go, by what was measured of a GPU model."""

from __future__ import annotations

from search_space.expr import reads
from search_space.target import Target
from search_space.workload import Workload


def roofline_us(workload: Workload, target: Target) -> float:
    """Return a reference time in microseconds: the larger of two sustained limits.

    Operations over the rate that the vendor library sustains, and compulsory bytes over the rate
    of a large device copy (read plus written). A reference and no physical bound: a kernel
    better than the library, or inputs that stay in cache, can beat it.
    """
    memory_s = workload.compulsory_bytes / target.measured_memory_bytes_per_s
    rate = target.measured_operations_per_s.get(arithmetic(workload))
    math_s = workload.operations / rate if rate else 0.0
    return 1e6 * max(memory_s, math_s)


def arithmetic(workload: Workload) -> str:
    """Return the key of the target's rates: what the reduction multiplies, and how."""
    tensors = workload.tensors
    for stage in workload.stages:
        if stage.reducer:
            dtypes = [tensors[read.tensor].dtype for read in reads(stage.value)]
            widest = "float32" if "float32" in dtypes else dtypes[0]
            return "tf32" if widest == "float32" and workload.precision == "tf32" else widest
    return workload.inputs[0].dtype
