"""Contractions: blocks on the grid, a reduction in blocks, the product on the tensor cores.

The variants differ in how data moves (pointers or descriptors), whether programs persist, and
whether programs share a reduction. Axes that do not fit the pattern go to the grid or to outer
serial loops, so any product of plain reads is covered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from search_space import access
from search_space.dtype import size_bytes
from search_space.expr import Call, Read, reads, walk
from search_space.refusal import IllegalStep
from search_space.rules.join import join_steps
from search_space.rules.role import Contraction, contraction, primary
from search_space.sketch import Choice, Sketch, Structure, fill
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Fuse,
    Guard,
    Open,
    Order,
    Persist,
    Pipeline,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    Vectorize,
    Warps,
)
from search_space.target import Target
from search_space.workload import Axis, Tensor, Workload

TILE_M = (16, 32, 64, 128, 256)
TILE_N = (16, 32, 64, 128, 256)
TILE_K = (16, 32, 64, 128, 256)
STAGES = (1, 2, 3, 4, 5, 6, 7)
WARPS = (2, 4, 8)
GROUP = (1, 2, 4, 8, 16, 32)
PARTS = (1, 2, 4)
SPLIT = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
CTAS = (1, 2)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build a contraction."""

    load: str
    store: str
    persistent: bool = False
    split: str = "none"
    swap: bool = False

    @property
    def name(self) -> str:
        """The sketch's name: what differs from the plainest variant."""
        words = ["contraction", self.load]
        words += ["direct"] if self.load == "descriptor" and self.store == "pointer" else []
        words += ["swapped"] if self.swap else []
        words += ["persistent"] if self.persistent else []
        words += ["split", self.split] if self.split != "none" else []
        return ".".join(words)


def contraction_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return every legal variant, or one sentence on why none applies."""
    roles = contraction(workload)
    if isinstance(roles, str):
        return roles
    found = []
    for variant in _variants(workload, roles, target):
        sketch = _sketch(workload, roles, variant, target)
        if _is_legal(sketch):
            found.append(sketch)
    return tuple(found) or "no variant is legal"


def _variants(workload: Workload, roles: Contraction, target: Target) -> Iterator[Variant]:
    moves = [("pointer", "pointer")]
    if "tma" in target.features:
        moves += [("descriptor", "descriptor"), ("descriptor", "pointer")]
    skinny = _extent(roles.m) <= 64 or _extent(roles.n) <= 64
    for load, store in moves:
        yield Variant(load, store)
        yield Variant(load, store, persistent=True)
        if skinny and store == "pointer":
            yield Variant(load, store, swap=True)
        if _pays_to_split(roles, target) and store == "pointer":
            for split in ("workspace", "atomic"):
                yield Variant(load, store, split=split)
                if skinny:
                    yield Variant(load, store, split=split, swap=True)


def _pays_to_split(roles: Contraction, target: Target) -> bool:
    """Whether the reduction is long and blocks of 128 x 128 leave multiprocessors idle."""
    blocks = _extent(roles.batch) * -(-_extent(roles.m) // 128) * -(-_extent(roles.n) // 128)
    return _extent(roles.k) >= 512 and blocks < 2 * target.multiprocessors


def _is_legal(sketch: Sketch) -> bool:
    """Try one point of the space: what a variant may not do, it may not do anywhere in it."""
    from search_space.apply import replay

    middle = {c.name: c.domain[len(c.domain) // 2] for c in sketch.choices}
    try:
        replay(sketch.workload, fill(sketch, middle | {"parts": 1} if "parts" in middle else middle))
    except IllegalStep:
        return False
    return True


def _sketch(workload: Workload, roles: Contraction, variant: Variant, target: Target) -> Sketch:
    tensors = workload.tensors
    a, b, output = tensors[roles.a.tensor], tensors[roles.b.tensor], workload.output
    last = workload.stages[-1]
    m = primary(roles.m, (a, roles.a), (output, Read(last.output, last.index)))
    n = primary(roles.n, (output, Read(last.output, last.index)), (b, roles.b))
    k = primary(roles.k, (a, roles.a), (b, roles.b))
    steps = [*_steps(workload, roles, variant, target, m, n, k)]
    return Sketch(
        name=variant.name,
        workload=workload,
        steps=tuple(steps),
        choices=_choices(roles, variant, m, n, k),
        structure=_structure(workload, roles, variant, m, n, k),
    )


def _steps(
    workload: Workload,
    roles: Contraction,
    variant: Variant,
    target: Target,
    m: Axis,
    n: Axis,
    k: Axis,
) -> Iterator[Step]:
    reduced, part = k.name, ()
    if variant.split != "none":
        reduced, part = f"{k.name}r", (f"{k.name}p",)
        split = variant.split
        block = Open("tile_k")
        yield SplitReduction(k.name, part[0], reduced, Open("split"), split, block)  # type: ignore[arg-type]
    yield Split(m.name, f"{m.name}0", f"{m.name}1", Open("tile_m"))
    yield Split(n.name, f"{n.name}0", f"{n.name}1", Open("tile_n"))
    yield Split(reduced, f"{k.name}0", f"{k.name}1", Open("tile_k"))
    outer_k = tuple(axis.name for axis in roles.k if axis != k)
    if outer_k:
        yield Fuse((*outer_k, f"{k.name}0"), f"{k.name}s")
    yield Tile(((f"{m.name}1",), (f"{n.name}1",), (f"{k.name}1",)))
    rest = tuple(x.name for x in (*roles.batch, *roles.m, *roles.n) if x not in (m, n))
    yield Bind((*rest, *part, f"{m.name}0", f"{n.name}0"), Open("group"))
    if variant.persistent:
        yield Persist(target.multiprocessors, Open("ctas"))
    yield Order((f"{k.name}s" if outer_k else f"{k.name}0",))
    yield from _data_steps(workload, roles, variant, m, n, k)
    yield Tensorize(swap=variant.swap)
    parts = Open("parts") if _has_parts(variant) else 1
    yield CacheWrite(variant.store, parts)  # type: ignore[arg-type]
    yield Pipeline(Open("stages"))
    yield Warps(Open("warps"))
    if variant.split != "none":
        yield from join_steps(workload, target)


def _data_steps(
    workload: Workload, roles: Contraction, variant: Variant, m: Axis, n: Axis, k: Axis
) -> Iterator[Step]:
    if variant.load == "pointer":
        yield Guard(m.name, "wrap")
        yield Guard(n.name, "wrap")
    for read, spatial in ((roles.a, m), (roles.b, n)):
        yield CacheRead(read.tensor, variant.load)  # type: ignore[arg-type]
        tensor = workload.tensors[read.tensor]
        width = access.row_bytes(tensor) // size_bytes(tensor.dtype)
        inner = next((x for x in (spatial, k) if read.index[-1].single == x.name), None)
        if variant.load == "pointer" and inner and width > 1:
            yield Vectorize(read.tensor, f"{inner.name}1", width)
    if variant.store == "descriptor":
        for tensor in _block_inputs(workload, roles, m, n):
            yield CacheRead(tensor, "descriptor")


def _block_inputs(workload: Workload, roles: Contraction, m: Axis, n: Axis) -> Iterator[str]:
    """Yield the epilogue's inputs that run along both M and N and lie as the output does."""
    output = workload.output
    for read in (r for stage in workload.stages[1:] for r in reads(stage.value)):
        tensor = workload.tensors[read.tensor]
        along = {form.single for form in read.index}
        if tensor in workload.inputs and {m.name, n.name} <= along and (
            access.row_bytes(tensor) == 16 and tensor.shape == output.shape
        ):
            yield tensor.name


def _has_parts(variant: Variant) -> bool:
    return variant.store == "descriptor" or (variant.persistent and not variant.swap)


def _choices(
    roles: Contraction, variant: Variant, m: Axis, n: Axis, k: Axis
) -> tuple[Choice, ...]:
    domains: dict[str, tuple[int, ...]] = {
        "tile_m": _tiles(TILE_M, m.extent),
        "tile_n": _tiles(TILE_N, n.extent),
        "tile_k": _tiles(TILE_K, k.extent),
        "stages": STAGES,
        "warps": WARPS,
        "group": GROUP,
    }
    if _has_parts(variant):
        domains["parts"] = PARTS
    if variant.split != "none":
        most = max(2, k.extent // 64)
        domains["split"] = tuple(s for s in SPLIT if s <= most) or (2,)
    if variant.persistent:
        domains["ctas"] = CTAS
    return tuple(Choice(name, domain) for name, domain in domains.items())


def _tiles(domain: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """Return the tiles up to the first that covers ``extent``: a larger one only adds waste."""
    covering = next((t for t in domain if t >= extent), domain[-1])
    return tuple(t for t in domain if t <= covering)


def _structure(
    workload: Workload, roles: Contraction, variant: Variant, m: Axis, n: Axis, k: Axis
) -> Structure:
    tensors = workload.tensors
    a, b, output = tensors[roles.a.tensor], tensors[roles.b.tensor], workload.output
    operands = {roles.a.tensor, roles.b.tensor}
    later = workload.stages[1:]
    extra = {r.tensor for stage in later for r in reads(stage.value)} & {
        t.name for t in workload.inputs
    }
    calls = sum(isinstance(node, Call) for stage in later for node in walk(stage.value))
    float32 = a.dtype == "float32"
    return Structure(
        batch=_extent(roles.batch) * _others(roles.m, m) * _others(roles.n, n),
        m=m.extent,
        n=n.extent,
        k=_extent(roles.k),
        a_dtype=a.dtype,
        b_dtype=b.dtype,
        accumulator_dtype=tensors[workload.stages[0].output].dtype,
        output_dtype=output.dtype,
        arithmetic=("tf32" if workload.precision == "tf32" else "float32") if float32 else a.dtype,
        a_k_major=_runs_along(a, roles.a, k),
        b_k_major=_runs_along(b, roles.b, k),
        a_row_bytes=access.row_bytes(a),
        b_row_bytes=access.row_bytes(b),
        output_row_bytes=access.row_bytes(output),
        load=variant.load,  # type: ignore[arg-type]
        store=variant.store,  # type: ignore[arg-type]
        persistent=variant.persistent,
        split=variant.split,  # type: ignore[arg-type]
        epilogue_bytes=sum(tensors[t].size_bytes for t in extra - operands),
        epilogue_calls=calls,
        swap=variant.swap,
    )


def _runs_along(tensor: Tensor, read: Read, axis: Axis) -> bool:
    return tensor.strides[-1] == 1 and read.index[-1].single == axis.name


def _extent(axes: tuple[Axis, ...]) -> int:
    return math.prod(axis.extent for axis in axes)


def _others(axes: tuple[Axis, ...], held: Axis) -> int:
    return _extent(tuple(axis for axis in axes if axis != held))
