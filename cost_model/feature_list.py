"""The features of a candidate, each with its unit, its formula and its group.

Computed from choices, the sketch's structure and the target, without replaying a nest; the last
group is of what was compiled. Sizes and times are on a log2 scale; NaN stands where a feature does
not apply or is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cost_model import traffic
from cost_model.terms import Times
from search_space.case import Case, registers_estimate, ring_buffers, shared_bytes
from search_space.dtype import size_bytes
from search_space.sketch import CHOICES

#: What a feature is about. ``compiled`` is known once a candidate is built.
Group = Literal[
    "choices", "shape", "block", "grid", "loop", "bytes", "analytic", "structure", "compiled"
]
GROUPS: tuple[Group, ...] = get_args(Group)

#: What compiling tells, by name: unit and formula.
FACTS: tuple[tuple[str, str, str], ...] = (
    ("registers", "registers a thread", "as compiled"),
    ("stack_bytes", "bytes a thread", "spilled to local memory"),
    ("shared_bytes", "bytes", "as compiled"),
    ("binary_bytes", "bytes", "length of the binary"),
    *(
        (name, "instructions", f"{name} in the text of the kernels")
        for name in ("HGMMA", "HMMA", "UTMALDG", "LDGSTS", "LDG", "STG", "LDS", "STS", "BAR")
    ),
)


@dataclass(frozen=True, slots=True)
class View:
    """A population and what was derived of it once: its analytic times and its roofline.

    ``facts`` holds columns [candidates] by the names of ``FACTS``, NaN where one is not known.
    """

    case: Case
    times: Times
    roof_us: float
    kept_bytes: float
    facts: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Feature:
    """One number per candidate. ``formula`` says how it comes about, ``unit`` what it counts."""

    name: str
    unit: str
    formula: str
    compute: Callable[[View], Any]
    group: Group = "choices"


def _grouped(group: Group, *found: Feature) -> tuple[Feature, ...]:
    return tuple(replace(feature, group=group) for feature in found)


def _fact(name: str, unit: str, formula: str) -> Feature:
    def compute(view: View) -> Any:
        return np.log2(1 + view.facts[name]) if name in view.facts else np.nan

    return Feature(f"compiled_{name.lower()}", f"log2 {unit}", f"log2(1 + {formula})", compute)


def _choice(name: str) -> Feature:
    return Feature(
        f"log2_{name}", "log2", f"log2({name})", lambda v: np.log2(getattr(v.case, name))
    )


def _extent(name: str) -> Feature:
    return Feature(
        f"log2_{name}", "log2", f"log2({name})", lambda v: np.log2(getattr(v.case.structure, name))
    )


def _flag(name: str, formula: str, holds: Callable[[Case], Any]) -> Feature:
    return Feature(name, "0 or 1", formula, lambda v: holds(v.case))


def _log(name: str, unit: str, formula: str, compute: Callable[[Case], Any]) -> Feature:
    return Feature(
        f"log2_{name}", f"log2 {unit}", f"log2({formula})", lambda v: _log_or_nan(compute(v.case))
    )


def _time(name: str, formula: str) -> Feature:
    return Feature(
        f"log2_t_{name}",
        "log2 us",
        f"log2({formula})",
        lambda v: _log_or_nan(getattr(v.times, f"{name}_us")),
    )


def _log_or_nan(value: Any) -> Any:
    """Return the logarithm of what there is; what takes nothing has none."""
    return np.log2(np.where(np.asarray(value) > 0, value, np.nan))


def _wave_efficiency(case: Case) -> Any:
    per_wave = case.target.multiprocessors * traffic.resident(case)
    waves = traffic.programs(case) / per_wave
    return waves / np.ceil(waves)


def _intensity(case: Case) -> Any:
    operations = 2.0 * case.tile_m * case.tile_n * case.tile_k
    return operations / traffic.block_bytes(case)


def _pipeline_fill(case: Case) -> Any:
    return case.iterations / (case.iterations + case.stages - 1)


def _mma_fit(case: Case) -> Any:
    rows = np.where(case.wgmma, 64, 16)
    return case.rows / rows / np.maximum(case.warps / np.where(case.wgmma, 4, 1), 1)


def _reuse(view: View) -> Any:
    return traffic.l2_bytes(view.case) / traffic.hbm_bytes(view.case, view.kept_bytes)


def _in_flight(view: View) -> Any:
    needed = view.case.target.measured_memory_bytes_per_s * 1e-6
    return np.log2(traffic.in_flight_bytes(view.case) / needed)


def _split_share(case: Case) -> Any:
    if case.structure.split == "none":
        return np.nan
    return traffic.split_bytes(case) / traffic.output_bytes(case)


def _overlap(case: Case, side: str) -> int:
    s = case.structure
    return s.batch * int(getattr(s, side)) * s.k


def _access_bytes(case: Case) -> Any:
    s = case.structure
    return np.nan if s.load == "descriptor" else min(s.a_row_bytes, s.b_row_bytes)


def _ragged(extent: str, tile: str, blocks: str) -> Feature:
    return Feature(
        f"{extent}_fit",
        "ratio",
        f"{extent} / ({blocks} * {tile})",
        lambda v: (
            getattr(v.case.structure, extent) / (getattr(v.case, blocks) * getattr(v.case, tile))
        ),
    )


FEATURES: tuple[Feature, ...] = (
    *_grouped(
        "choices",
        *(_choice(name) for name in CHOICES),
    ),
    *_grouped(
        "shape",
        *(_extent(name) for name in ("batch", "m", "n", "k")),
        _extent("taps"),
        _ragged("m", "tile_m", "tiles_m"),
        _ragged("n", "tile_n", "tiles_n"),
        _ragged("k", "tile_k", "blocks_k"),
        Feature(
            "padding_efficiency",
            "ratio",
            "m*n*k / multiply-adds over whole blocks",
            lambda v: traffic.padding_efficiency(v.case),
        ),
    ),
    *_grouped(
        "block",
        _log("tile_area", "elements", "tile_m * tile_n", lambda c: c.tile_m * c.tile_n),
        Feature(
            "log2_tile_aspect",
            "log2",
            "log2(tile_m / tile_n)",
            lambda v: np.log2(v.case.tile_m / v.case.tile_n),
        ),
        _log("shared_bytes", "bytes", "ring and store buffer; NaN without", shared_bytes),
        Feature(
            "shared_share",
            "ratio",
            "shared_bytes / limit of a block",
            lambda v: shared_bytes(v.case) / v.case.target.shared_memory_per_block_bytes,
        ),
        Feature(
            "registers",
            "registers a thread",
            "tile_m*tile_n / (32*warps) + 26 (descriptor) or 60 (pointer)",
            lambda v: registers_estimate(v.case),
        ),
        Feature(
            "resident",
            "programs a multiprocessor",
            "least of shared memory, registers, threads; ctas if persistent",
            lambda v: traffic.resident(v.case),
        ),
        Feature(
            "mma_fit",
            "instructions a warp group",
            "rows of the dot / (64 * warps/4) for wgmma, / (16 * warps) for mma",
            lambda v: _mma_fit(v.case),
        ),
        _flag("wgmma", "64 rows and groups of 4 warps", lambda c: c.wgmma),
    ),
    *_grouped(
        "grid",
        _log("programs", "programs", "tiles * split", traffic.programs),
        _log(
            "waves",
            "waves",
            "programs / (multiprocessors * resident)",
            lambda c: traffic.programs(c) / (c.target.multiprocessors * traffic.resident(c)),
        ),
        Feature(
            "wave_efficiency",
            "ratio",
            "waves / ceil(waves)",
            lambda v: _wave_efficiency(v.case),
        ),
        Feature(
            "balance",
            "ratio",
            "programs / (multiprocessors * ceil(programs / multiprocessors))",
            lambda v: (
                traffic.programs(v.case) / (v.case.target.multiprocessors * traffic.queued(v.case))
            ),
        ),
    ),
    *_grouped(
        "loop",
        _log("iterations", "turns", "ceil(ceil(k / tile_k) / split)", lambda c: c.iterations),
        Feature(
            "pipeline_fill",
            "ratio",
            "iterations / (iterations + stages - 1)",
            lambda v: _pipeline_fill(v.case),
        ),
        Feature(
            "ring_buffers",
            "buffers",
            "stages, less one for mma.sync",
            lambda v: ring_buffers(v.case),
        ),
    ),
    *_grouped(
        "bytes",
        Feature(
            "log2_intensity",
            "log2 operations/byte",
            "log2(2*tile_m*tile_n / (tile_m*a + tile_n*b))",
            lambda v: np.log2(_intensity(v.case)),
        ),
        _log("l2_bytes", "bytes", "programs * iterations * bytes of a block", traffic.l2_bytes),
        Feature(
            "log2_hbm_bytes",
            "log2 bytes",
            "log2(a and b once per miss of a band in L2, output once)",
            lambda v: np.log2(traffic.hbm_bytes(v.case, v.kept_bytes)),
        ),
        Feature(
            "log2_a_overlap",
            "log2",
            "log2(batch*m*k / elements of a): how often windows read an element",
            lambda v: np.log2(_overlap(v.case, "m") / v.case.a_elements),
        ),
        Feature(
            "log2_b_overlap",
            "log2",
            "log2(batch*n*k / elements of b)",
            lambda v: np.log2(_overlap(v.case, "n") / v.case.b_elements),
        ),
        Feature(
            "log2_l2_reuse", "log2", "log2(l2_bytes / hbm_bytes)", lambda v: np.log2(_reuse(v))
        ),
        Feature(
            "log2_in_flight",
            "log2",
            "log2(bytes in flight / (memory rate * 1 us))",
            _in_flight,
        ),
        _log("row_bytes", "bytes", "contiguous bytes of a block", traffic.contiguous_bytes),
        Feature(
            "split_share",
            "ratio",
            "bytes of partial sums / output bytes; NaN without a split",
            lambda v: _split_share(v.case),
        ),
        Feature(
            "access_bytes",
            "bytes",
            "aligned bytes of rows of a and b, the smaller; NaN with descriptors",
            lambda v: _access_bytes(v.case),
        ),
        Feature(
            "stored_access_bytes",
            "bytes",
            "aligned bytes of rows of the output",
            lambda v: v.case.structure.output_row_bytes,
        ),
    ),
    *_grouped(
        "analytic",
        _time("compute", "dots of the busiest multiprocessor, microseconds"),
        _time("multiprocessor", "all of the busiest multiprocessor, latency exposed, microseconds"),
        _time("l2", "l2_bytes / rate of L2, microseconds"),
        _time("hbm", "hbm_bytes / rate of memory by bytes in flight, microseconds"),
        _time(
            "join",
            "passes that pack operands, join parts or compute the rest, microseconds; "
            "NaN without any",
        ),
        _time("launch", "launches, microseconds"),
        _time("total", "all of them joined, microseconds"),
        Feature(
            "analytic_log_efficiency",
            "ln",
            "ln(roofline / total)",
            lambda v: np.log(v.roof_us / v.times.total_us),
        ),
        Feature(
            "log2_roofline",
            "log2 us",
            "log2(max(operations / peak of the dtypes, compulsory bytes / memory rate))",
            lambda v: np.log2(v.roof_us),
        ),
    ),
    *_grouped(
        "structure",
        _flag(
            "descriptor_load", "load is by descriptor", lambda c: c.structure.load == "descriptor"
        ),
        _flag(
            "descriptor_store",
            "store is by descriptor",
            lambda c: c.structure.store == "descriptor",
        ),
        _flag("persistent", "the kernel is persistent", lambda c: c.structure.persistent),
        _flag("workspace", "split by workspace", lambda c: c.structure.split == "workspace"),
        _flag("atomic", "split by atomics", lambda c: c.structure.split == "atomic"),
        _flag(
            "counter", "split, joined by the last part", lambda c: c.structure.split == "counter"
        ),
        Feature("packs", "operands", "operands packed first", lambda v: v.case.structure.packs),
        _flag("dot", "blocks are multiplied on the tensor cores", lambda c: c.structure.dot),
        _extent("copies"),
        _extent("steps"),
        Feature("streams", "tensors", "tensors read", lambda v: len(v.case.structure.streams)),
        Feature(
            "stream_stride",
            "elements",
            "largest distance of neighbouring lanes' elements; NaN with a dot",
            lambda v: max((s.stride for s in v.case.structure.streams), default=np.nan),
        ),
        Feature(
            "stream_width",
            "elements",
            "widest access of a thread; NaN with a dot",
            lambda v: max((s.width for s in v.case.structure.streams), default=np.nan),
        ),
        _flag("peeled", "the end of an axis is apart", lambda c: c.structure.peeled != "none"),
        _flag("masked", "pointers are checked in every turn", lambda c: c.structure.masked),
        _flag("swap", "the dot is computed transposed", lambda c: c.structure.swap),
        _flag(
            "through_registers",
            "an operand passes through registers",
            lambda c: c.structure.registers,
        ),
        _flag("a_k_major", "a is contiguous along k", lambda c: c.structure.a_k_major),
        _flag("b_k_major", "b is contiguous along k", lambda c: c.structure.b_k_major),
        Feature("a_bytes", "bytes", "element of a", lambda v: v.case.a_bytes),
        Feature("b_bytes", "bytes", "element of b", lambda v: v.case.b_bytes),
        Feature(
            "output_bytes",
            "bytes",
            "element of the output",
            lambda v: size_bytes(v.case.structure.output_dtype),
        ),
        _flag(
            "tensor_core", "arithmetic is not plain", lambda c: c.structure.arithmetic != "float32"
        ),
        Feature(
            "epilogue_calls",
            "functions an element",
            "functions of the epilogue",
            lambda v: v.case.structure.epilogue_calls,
        ),
    ),
    *_grouped(
        "compiled",
        *(_fact(name, unit, formula) for name, unit, formula in FACTS),
    ),
)
