"""What a model sees of a candidate: named numbers with units and formulas, for whole populations.

Computed from choices, the sketch's structure and the target, without replaying a nest. Knows no
model. ``FEATURES`` is the list with every formula; sizes are on a log2 scale, times are
microseconds on a log2 scale, NaN stands where a feature does not apply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model import traffic
from cost_model.machine import machine, roofline_us
from cost_model.terms import Times, times
from search_space.case import (
    Case,
    case_of,
    columns,
    registers_estimate,
    ring_buffers,
    shared_bytes,
)
from search_space.dtype import size_bytes
from search_space.sketch import CHOICES, Sketch
from search_space.target import Target


@dataclass(frozen=True, slots=True)
class View:
    """A population and what was derived of it once: its analytic times and its roofline."""

    case: Case
    times: Times
    roof_us: float
    kept_bytes: float


@dataclass(frozen=True, slots=True)
class Feature:
    """One number per candidate. ``formula`` says how it comes about, ``unit`` what it counts."""

    name: str
    unit: str
    formula: str
    compute: Callable[[View], Any]


def features(sketch: Sketch, matrix: NDArray[np.int64], target: Target) -> NDArray[np.float32]:
    """Return the features [candidates, len(NAMES)] as float32, columns in the order of ``NAMES``.

    ``matrix`` holds choices [candidates, choices] in ``sketch.names`` order; a choice that the
    sketch lacks has its default (``case.DEFAULTS``).
    """
    case = case_of(sketch, columns(sketch, matrix), target)
    view = View(
        case=case,
        times=times(case, len(matrix)),
        roof_us=roofline_us(sketch.workload, sketch.structure, target),
        kept_bytes=machine(sketch.structure, target).l2_kept_bytes,
    )
    table = np.empty((len(FEATURES), len(matrix)), np.float32)
    for row, feature in zip(table, FEATURES, strict=True):
        row[:] = feature.compute(view)
    return table.T


def schema_hash() -> str:
    """Return 12 hex digits over names, units and formulas in order: equal means same columns."""
    text = "\n".join(f"{f.name}\t{f.unit}\t{f.formula}" for f in FEATURES)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
    *(_choice(name) for name in CHOICES),
    # Shape of the work.
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
    # The block and what it occupies.
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
    # The grid.
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
    # The K loop.
    _log("iterations", "turns", "ceil(ceil(k / tile_k) / split)", lambda c: c.iterations),
    Feature(
        "pipeline_fill",
        "ratio",
        "iterations / (iterations + stages - 1)",
        lambda v: _pipeline_fill(v.case),
    ),
    Feature(
        "ring_buffers", "buffers", "stages, less one for mma.sync", lambda v: ring_buffers(v.case)
    ),
    # Bytes.
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
    Feature("log2_l2_reuse", "log2", "log2(l2_bytes / hbm_bytes)", lambda v: np.log2(_reuse(v))),
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
    # The analytic model's terms.
    _time("compute", "dots of the busiest multiprocessor, microseconds"),
    _time("multiprocessor", "all of the busiest multiprocessor, latency exposed, microseconds"),
    _time("l2", "l2_bytes / rate of L2, microseconds"),
    _time("hbm", "hbm_bytes / rate of memory by bytes in flight, microseconds"),
    _time(
        "join",
        "passes that pack operands, join parts or compute the rest, microseconds; NaN without any",
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
        "log2(max(operations / peak, compulsory bytes / memory rate))",
        lambda v: np.log2(v.roof_us),
    ),
    # What the sketch is.
    _flag("descriptor_load", "load is by descriptor", lambda c: c.structure.load == "descriptor"),
    _flag(
        "descriptor_store", "store is by descriptor", lambda c: c.structure.store == "descriptor"
    ),
    _flag("persistent", "the kernel is persistent", lambda c: c.structure.persistent),
    _flag("workspace", "split by workspace", lambda c: c.structure.split == "workspace"),
    _flag("atomic", "split by atomics", lambda c: c.structure.split == "atomic"),
    _flag("counter", "split, joined by the last part", lambda c: c.structure.split == "counter"),
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
        "through_registers", "an operand passes through registers", lambda c: c.structure.registers
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
    _flag("tensor_core", "arithmetic is not plain", lambda c: c.structure.arithmetic != "float32"),
    Feature(
        "epilogue_calls",
        "functions an element",
        "functions of the epilogue",
        lambda v: v.case.structure.epilogue_calls,
    ),
)

#: Names of the columns, in order.
NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
