"""Contractions: blocks on the grid, a reduction in blocks, the product on the tensor cores.

The variants differ in how data moves (pointers or descriptors), whether programs persist, and
whether programs share a reduction. Axes that do not fit the pattern go to the grid or to outer
serial loops, so any product of plain reads is covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from search_space import access
from search_space.apply import IllegalStep, replay
from search_space.dtype import size_bytes
from search_space.rules.join import join_steps
from search_space.rules.pack import (
    SQUARE,
    is_plain,
    packed_order,
    packing_steps,
    padded_row_bytes,
    pays_to_pad,
    turning_square,
    wants_packing,
)
from search_space.rules.peel import SIDES, peel_step, rest_of, rest_steps
from search_space.rules.role import (
    Blocking,
    Contraction,
    blocking,
    contraction,
    extent_of,
)
from search_space.rules.rows import row_domains, suits_rows
from search_space.rules.variant import (
    Share,
    Side,
    Variant,
    Via,
    block_inputs,
    k_major,
    structure_of,
)
from search_space.sketch import Choice, Sketch, fill
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Fuse,
    Guard,
    Open,
    Order,
    Pack,
    Persist,
    Pipeline,
    ReduceLate,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    Vectorize,
    Warps,
)
from search_space.target import Target
from search_space.workload import Axis, Workload

TILE_M = (16, 32, 64, 128, 256)
TILE_N = (16, 32, 64, 128, 256)
TILE_K = (16, 32, 64, 128, 256)
STAGES = (1, 2, 3, 4, 5, 6, 7)
WARPS = (2, 4, 8)
GROUP = (1, 2, 4, 8, 16, 32)
PARTS = (1, 2, 4)
SPLIT = (2, 3, 4, 6, 8, 12, 16, 24, 32, 33, 48, 64, 66, 96, 128, 132)
CTAS = (1, 2)
_STORES: tuple[Via, ...] = ("descriptor", "pointer")
SHARES: tuple[Share, ...] = ("workspace", "atomic", "counter")


def contraction_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return every legal variant, or one sentence on why none applies."""
    roles = contraction(workload)
    if isinstance(roles, str):
        return roles
    if roles.windowed:
        return f"an index of {roles.windowed[0].tensor!r} is not one axis alone"
    blocks = blocking(workload, roles)
    return legal_sketches(blocks, _variants(blocks, target), target) or "no variant is legal"


def legal_sketches(
    blocks: Blocking, variants: Iterable[Variant], target: Target
) -> tuple[Sketch, ...]:
    """Return the sketches of those ``variants`` that are legal."""
    built = (sketch_of(blocks, variant, target) for variant in variants)
    return tuple(sketch for sketch in built if is_legal(sketch))


def _variants(blocks: Blocking, target: Target) -> Iterator[Variant]:
    """Yield every way to build a contraction: as its operands lie, and with copies that let the
    copy engine and the tensor cores take them. A copy of a constant operand costs nothing, so
    that it is also tried without one of the other, and where pointers read it."""
    roles, a, b = blocks.roles, blocks.a, blocks.b
    plain = is_plain(blocks, target)
    yield from _plain_dot_variants(blocks, target) if plain else plain_variants(roles, target)
    if suits_rows(blocks):
        yield from _row_variants(roles, target)
    if plain:
        return
    yield from _peeled_variants(blocks, target)
    yield from _register_variants(blocks, target)
    pack_a = wants_packing(blocks, a, k_major=k_major(a, roles.a, blocks.k))
    pack_b = wants_packing(blocks, b, k_major=k_major(b, roles.b, blocks.k))
    free_a, free_b = pack_a and a.constant, pack_b and b.constant
    for variant in plain_variants(roles, target):
        is_free = (pack_a, pack_b) == (free_a, free_b)
        by_engine = variant.load == "descriptor" or "tma" not in target.features
        if (pack_a or pack_b) and (by_engine or is_free):
            yield replace(variant, pack_a=pack_a, pack_b=pack_b)
        if (free_a or free_b) and not is_free:
            yield replace(variant, pack_a=free_a, pack_b=free_b, prepared=True)
        if by_engine and variant.load == "descriptor" and not variant.split:
            yield from _padded(blocks, variant, pack_a, pack_b)


def _padded(blocks: Blocking, variant: Variant, pack_a: bool, pack_b: bool) -> Iterator[Variant]:
    """Yield ``variant`` with operands copied whose rows straddle lines, beside those that must."""
    pad_a, pad_b = (pays_to_pad(blocks, tensor) for tensor in (blocks.a, blocks.b))
    for a, b in ((pad_a, pad_b), (pad_a, False), (False, pad_b)):
        padded = replace(variant, pack_a=pack_a or a, pack_b=pack_b or b, padded=True)
        if (a or b) and (padded.pack_a, padded.pack_b) != (pack_a, pack_b):
            yield padded
        if not (pad_a and pad_b):
            return


def _plain_dot_variants(blocks: Blocking, target: Target) -> Iterator[Variant]:
    """Yield the ways to build a product without tensor cores.

    The lanes of a warp lie along the columns of the dot, so they read its second operand
    from as many rows of shared memory as there are lanes if K runs along those rows: all in the
    same banks. It is read in one piece where M or N runs along the rows. So the product is
    computed transposed where that suits how operands lie, and where neither does, the operand
    that is cheaper to copy is made the second and copied first. Copies of all that is K-major
    save registers as well, which pays in products too large to be split.
    """
    roles, a, b = blocks.roles, blocks.a, blocks.b
    lies: dict[Side, bool] = {
        "a": k_major(a, roles.a, blocks.k),
        "b": k_major(b, roles.b, blocks.k),
    }
    k_majors = tuple(side for side in lies if lies[side])
    copied = {tensor.name: 0 if tensor.constant else tensor.size_bytes for tensor in (a, b)}
    for variant in plain_variants(roles, target, swaps=lies["b"]):
        second: Side = "a" if variant.swap else "b"
        if not (variant.swap and lies["a"]):
            yield variant
        turns = set[tuple[Side, ...]]()
        if not variant.persistent and variant.split != "atomic":
            is_cheaper = len(k_majors) < 2 or variant.swap == (copied[a.name] < copied[b.name])
            turns |= {(second,)} if lies[second] and is_cheaper else set()
            turns |= {k_majors} if k_majors and not variant.swap and not variant.split else set()
        aligned = access.row_bytes(a) == access.row_bytes(b) == 16
        for turned in sorted(turns) or [()][aligned:]:
            yield replace(
                variant,
                pack_a="a" in turned or access.row_bytes(a) < 16,
                pack_b="b" in turned or access.row_bytes(b) < 16,
                turned=turned,
            )


def plain_variants(roles: Contraction, target: Target, *, swaps: bool = False) -> Iterator[Variant]:
    """Yield the ways to move data; ``swaps``: also transposed where no side is skinny."""
    moves: list[tuple[Via, Via]] = [("pointer", "pointer")]
    if "tma" in target.features:
        moves += [("descriptor", "descriptor"), ("descriptor", "pointer")]
    swaps |= min(extent_of(roles.m), extent_of(roles.n)) <= 64
    for load, store in moves:
        yield Variant(load, store)
        yield Variant(load, store, persistent=True)
        if store == "descriptor":
            continue
        if swaps:
            yield Variant(load, store, swap=True)
        if pays_to_split(roles, target) and not roles.whole:
            for swap in (False, True)[: 1 + swaps]:
                for share in SHARES:
                    yield Variant(load, store, split=share, swap=swap)


def _row_variants(roles: Contraction, target: Target) -> Iterator[Variant]:
    splits: tuple[Share | None, ...] = (None, "counter")
    for split in splits if pays_to_split(roles, target) else splits[:1]:
        yield Variant("pointer", "pointer", split=split, dot=False)


def _register_variants(blocks: Blocking, target: Target) -> Iterator[Variant]:
    """Yield variants without a copy where wgmma cannot take one operand as it lies: that one
    becomes the first operand and passes through registers.

    Its dots wait for each turn, which another program on the multiprocessor hides. Persistent
    programs keep a block to store beside their ring and leave no room for one (measured: 977 to
    1436 us against 931, 128 x 512 x 2048 x 1024).
    """
    roles, a, b = blocks.roles, blocks.a, blocks.b
    lies_right = [k_major(a, roles.a, blocks.k), k_major(b, roles.b, blocks.k)]
    is_tf32 = blocks.workload.precision == "tf32" and {a.dtype, b.dtype} == {"float32"}
    if "tma" not in target.features or not is_tf32 or sum(lies_right) != 1:
        return
    if min(access.row_bytes(a), access.row_bytes(b)) < 16:
        return
    for store in _STORES:
        yield Variant("descriptor", store, swap=lies_right[0], registers=True)


def _peeled_variants(blocks: Blocking, target: Target) -> Iterator[Variant]:
    """Yield the variants for large outputs once more, the end of an axis computed apart."""
    large = "descriptor" if "tma" in target.features else "pointer"
    for side in SIDES:
        if rest := rest_of(blocks, side, target):
            for variant in plain_variants(blocks.roles, target):
                if variant.load == large and not variant.split and not variant.swap:
                    yield replace(variant, peel=rest)


def pays_to_split(roles: Contraction, target: Target) -> bool:
    """Whether the reduction is long and blocks of 128 x 128 leave multiprocessors idle."""
    rows, columns = (-(-extent_of(axes) // 128) for axes in (roles.m, roles.n))
    blocks = extent_of(roles.batch) * rows * columns
    return extent_of(roles.k) >= 512 and blocks < 2 * target.multiprocessors


def is_legal(sketch: Sketch) -> bool:
    """Try one point of the space: what a variant may not do, it may not do anywhere in it."""
    middle = {choice.name: choice.domain[len(choice.domain) // 2] for choice in sketch.choices}
    middle |= {name: 1 for name in ("parts",) if name in middle}
    try:
        replay(sketch.workload, fill(sketch, middle))
    except IllegalStep:
        return False
    return True


def sketch_of(blocks: Blocking, variant: Variant, target: Target) -> Sketch:
    """Return the sketch that builds ``blocks`` as ``variant``, legal or not."""
    return Sketch(
        name=variant.name,
        workload=blocks.workload,
        steps=tuple(_steps(blocks, variant, target)),
        choices=_choices(blocks, variant),
        structure=structure_of(blocks, variant),
    )


def _steps(blocks: Blocking, variant: Variant, target: Target) -> Iterator[Step]:
    m, n, k = blocks.m, blocks.n, blocks.k
    outer = {axis: blocks.name(axis, "0") for axis in (m, n, k)}
    inner = {axis: blocks.name(axis, "1") for axis in (m, n, k)}
    whole = {axis: axis.name for axis in (m, n)}
    if variant.peel:
        peel = peel_step(blocks, variant.peel)
        whole[m if peel.axis == m.name else n] = peel.body
        yield peel
    reduced, part = k.name, tuple[str, ...]()
    if variant.split:
        reduced, part = blocks.name(k, "_rest"), (blocks.name(k, "_part"),)
        yield SplitReduction(k.name, part[0], reduced, Open("split"), variant.split, Open("tile_k"))
    for name, axes in blocks.fused.items():
        yield Fuse(tuple(axis.name for axis in axes), name)
    yield Split(whole[m], outer[m], inner[m], Open("tile_m"))
    yield Split(whole[n], outer[n], inner[n], Open("tile_n"))
    yield Split(reduced, outer[k], inner[k], Open("tile_k"))
    loop = outer[k]
    outer_k = tuple(axis.name for axis in blocks.outer_k)
    if outer_k:
        loop = blocks.name(k, "_all")
        yield Fuse((*outer_k, outer[k]), loop)
    yield Tile(((inner[m],), (inner[n],), (inner[k],)))
    others = tuple(axis.name for axis in blocks.others)
    yield Bind((*others, *part, outer[m], outer[n]), Open("group"))
    if variant.persistent:
        yield Persist(target.multiprocessors, Open("ctas"))
    yield Order((loop,))
    if variant.load == "pointer":
        yield Guard(whole[m], access.guard_mode(blocks.a, blocks.roles.a, m))
        yield Guard(whole[n], access.guard_mode(blocks.b, blocks.roles.b, n))
    yield from _data_steps(blocks, variant, inner, first_pack=2 if variant.joins else 1)
    registers = variant.registers
    yield Tensorize(variant.swap, registers) if variant.dot else ReduceLate()
    yield CacheWrite(variant.store, Open("parts") if _has_parts(variant) else 1)
    yield Pipeline(Open("stages"))
    yield Warps(Open("warps"))
    if variant.joins:
        yield from join_steps(blocks, target)
    if variant.peel:
        yield from rest_steps(blocks, variant.peel, variant.load)


def _data_steps(
    blocks: Blocking, variant: Variant, inner: dict[Axis, str], first_pack: int
) -> Iterator[Step]:
    roles, pointers = blocks.roles, variant.load == "pointer"
    nest = first_pack
    sides: tuple[tuple[Side, Axis, bool], ...] = (
        ("a", blocks.m, variant.pack_a),
        ("b", blocks.n, variant.pack_b),
    )
    for side, spatial, is_packed in sides:
        tensor, read = getattr(blocks, side), getattr(roles, side)
        name, row, row_bytes = tensor.name, read.index[-1].single, access.row_bytes(tensor)
        if is_packed:
            axes, along = [form.single for form in read.index], variant.copied_axis(blocks, side)
            order = packed_order(tensor, axes.index(along.name) if along else None)
            square = turning_square(tensor) if side in variant.turned else SQUARE
            name, row, row_bytes = blocks.fresh(f"{name}_packed"), read.index[order[-1]].single, 16
            yield Pack(tensor.name, name, order, padded_row_bytes(tensor, order))
            yield from packing_steps(tensor, order, nest, square)
            nest += 1
        yield CacheRead(name, variant.load)
        width = row_bytes // size_bytes(tensor.dtype)
        vector = next((axis for axis in (spatial, blocks.k) if axis.name == row), None)
        if pointers and vector and width > 1:
            yield Vectorize(name, inner[vector], width)
    if variant.store == "descriptor":
        for name in block_inputs(blocks):
            yield CacheRead(name, "descriptor")


def _has_parts(variant: Variant) -> bool:
    return not variant.swap and (variant.store == "descriptor" or variant.persistent)


def _choices(blocks: Blocking, variant: Variant) -> tuple[Choice, ...]:
    domains: dict[str, tuple[int, ...]] = {
        "tile_m": _tiles(blocks, TILE_M, blocks.m),
        "tile_n": _tiles(blocks, TILE_N, blocks.n),
        "tile_k": _tiles(blocks, TILE_K, blocks.k),
        "stages": STAGES,
        "warps": WARPS,
        "group": GROUP,
    }
    if not variant.dot:
        domains |= row_domains(blocks)
    if _has_parts(variant):
        domains["parts"] = PARTS
    if variant.split:
        most = max(2, blocks.k.extent // 64)
        domains["split"] = tuple(s for s in SPLIT if s <= most)
    if variant.persistent:
        domains["ctas"] = CTAS
    return tuple(Choice(name, domain) for name, domain in domains.items())


def _tiles(blocks: Blocking, domain: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """Return the tiles up to the first that covers the axis: a larger one only adds waste.

    Of an axis that is reduced again a block holds the whole.
    """
    extent = axis.extent
    if axis in blocks.roles.whole:
        return (max(domain[0], 1 << (extent - 1).bit_length()),)
    covering = next((t for t in domain if t >= extent), domain[-1])
    return tuple(t for t in domain if t <= covering)
