"""Products through windows by the copy engine: implicit GEMM by shifted boxes.

A block is images x rows x columns of pixels by a block of channels. Each turn of the loop takes one
tap and one block of channels; the copy engine brings in the box of pixels that the tap shifts it
to, reading zeros outside of the tensor, so that padding is free. Steps of 2 go through a view that
puts odd and even positions apart. The pixels are the second operand of the dot: reshaped from a
box of several dimensions they stay in shared memory only there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from search_space import access
from search_space.box import BOX_PIXELS
from search_space.expr import Affine, Read
from search_space.rules.contraction import (
    CTAS,
    GROUP,
    SPLIT,
    TILE_N,
    is_legal,
    pays_to_split,
)
from search_space.rules.join import join_steps
from search_space.rules.pack import is_plain, packing_steps, padded_row_bytes, wants_k_major
from search_space.rules.role import Blocking, Contraction, contraction, fuse, live
from search_space.rules.variant import Share, Variant, Via, block_inputs, structure_of
from search_space.sketch import Choice, Side, Sketch, Structure
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Fuse,
    Open,
    Order,
    Pack,
    Persist,
    Pipeline,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    View,
    Warps,
)
from search_space.target import Target
from search_space.workload import Axis, Tensor, Workload

#: Images, planes, rows and columns of a box, by the choice that says how many.
PIXELS: dict[str, tuple[int, ...]] = {
    "tile_i": (1, 2, 4, 8, 16),
    "tile_d": (1, 2, 4, 8, 16),
    "tile_y": (1, 2, 4, 8, 16),
    "tile_x": (1, 2, 4, 8, 16, 32, 64, 128),
}
#: Channels of a box. Rows of less than 64 bytes take the copy engine twice as long as they need
#: (measured, H200), so they are for tensors that have no more.
DEPTHS, LONG_DEPTH = (16, 32, 64, 128, 256), 32
STAGES = (2, 3, 4, 5, 6, 7)
WARPS = (4, 8)
SHARES: tuple[Share, ...] = ("counter", "workspace")
#: Extents of the axis that boxes hold whole rows of, below which most of a box is padding.
FEW = 16


@dataclass(frozen=True)
class Boxes:
    """A product of boxes of pixels with blocks of weights: which axes a box runs along."""

    blocks: Blocking
    #: The read of the operand that windows slide over, and of the other.
    pixels: Read
    weights: Read
    #: The axes of a box, outermost first, and how much of each, by the choices' names.
    along: tuple[tuple[str, Axis], ...]

    @property
    def last(self) -> bool:
        """Whether pixels are the columns of the output: channels come before them."""
        return self.pixels == self.blocks.roles.b

    @property
    def side(self) -> Axis:
        """The axis that the box's axes are fused to."""
        return self.blocks.n if self.last else self.blocks.m

    @property
    def channels(self) -> Axis:
        """The axis of the other side of the block."""
        return self.blocks.m if self.last else self.blocks.n

    @property
    def channel_choice(self) -> str:
        """The choice that says how many channels a block holds."""
        return "tile_m" if self.last else "tile_n"

    def tensor(self, read: Read) -> Tensor:
        """Return the tensor that is read."""
        return self.blocks.workload.tensors[read.tensor]


def box_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return every legal variant, or one sentence on why none applies."""
    if "tma" not in target.features:
        return "the target has no copy engine"
    roles = contraction(workload)
    if isinstance(roles, str):
        return roles
    boxes = boxes_of(workload, roles)
    if isinstance(boxes, str):
        return boxes
    if is_plain(boxes.blocks, target):
        return "the product is formed without tensor cores, which pointers feed as well"
    built = (_sketch(boxes, variant, target) for variant in _variants(boxes, target))
    return tuple(sketch for sketch in built if is_legal(sketch)) or "no variant is legal"


def boxes_of(workload: Workload, roles: Contraction) -> Boxes | str:
    """Choose the axes of boxes, or return one sentence on why there are none."""
    slides = {read: _slides(read, workload) for read in roles.windowed}
    if not any(slides.values()):
        return "no operand is read through windows"
    if roles.whole:
        return f"a block holds the whole of {roles.whole[0].name!r}"
    pixels = max(slides, key=lambda read: slides[read])
    weights = roles.b if pixels == roles.a else roles.a
    own, others = (roles.m, roles.n) if pixels == roles.a else (roles.n, roles.m)
    plain = [x for x in roles.k if all(_dimension(r, x) is not None for r in (pixels, weights))]
    if not plain:
        return "no reduced axis is read plainly by both operands"
    k = max(plain, key=lambda axis: axis.extent)
    if k.extent < FEW:
        return f"the longest axis that both operands read plainly has an extent of {k.extent}"
    along = _along(pixels, own)
    if isinstance(along, str):
        return along
    channels = _channels(workload, weights, others)
    if channels is None:
        return f"no axis of {weights.tensor!r} is read plainly"
    fused, side = fuse(workload, tuple(axis for _, axis in along))
    m, n = (side, channels) if pixels == roles.a else (channels, side)
    return Boxes(Blocking(workload, roles, m, n, k, fused), pixels, weights, along)


def _slides(read: Read, workload: Workload) -> int:
    """Return how many positions windows take along the axes of the output that move them, 0 where
    none does."""
    inside = {name for form in workload.stages[0].index for name in form.axes}
    forms = [live(workload, form) for form in read.index]
    moved = {name for form in forms if form.single is None for name in form.axes}
    return math.prod(workload.extents[name] for name in inside & moved) if inside & moved else 0


def _dimension(read: Read, axis: Axis) -> int | None:
    """Return the dimension that ``axis`` alone runs along."""
    found = [n for n, form in enumerate(read.index) if form.single == axis.name]
    return found[0] if found else None


def _along(read: Read, own: tuple[Axis, ...]) -> tuple[tuple[str, Axis], ...] | str:
    """Return the axes of a box in the order of the tensor's dimensions, each with its choice."""
    by_name = {axis.name: axis for axis in own}
    found: list[tuple[Axis, Affine]] = []
    for form in read.index:
        held = [name for name in form.axes if name in by_name]
        if len(held) > 1:
            return f"{', '.join(held)} run along one dimension of {read.tensor!r}"
        found += [(by_name[name], form) for name in held]
    if any(_step(form, axis) < 1 for axis, form in found):
        return f"{read.tensor!r} is read backwards"
    axes = [axis for axis, _ in found]
    images = len(found) > 1 and found[0][1].single is not None
    names = ["tile_i", *("tile_d", "tile_y", "tile_x")[4 - len(axes) :]] if images else []
    names = names or ["tile_d", "tile_y", "tile_x"][3 - len(axes) :]
    if len(names) != len(axes):
        most = 4 if images else 3
        return f"a box has at most {most} axes, {read.tensor!r} runs along {len(axes)}"
    return tuple(zip(names, axes, strict=True))


def _step(form: Affine, axis: Axis) -> int:
    return dict(form.terms)[axis.name]


def _channels(workload: Workload, weights: Read, others: tuple[Axis, ...]) -> Axis | None:
    """Return the axis of the other side to hold in blocks: contiguous in the output, or longest."""
    plain = [axis for axis in others if _dimension(weights, axis) is not None]
    last = workload.stages[-1].index[-1].single
    found = [axis for axis in plain if axis.name == last]
    return max(found or plain, key=lambda axis: axis.extent, default=None)


def _variants(boxes: Boxes, target: Target) -> Iterator[Variant]:
    pixel_pack, weight_pack = _wants_copy(boxes, boxes.pixels), _wants_copy(boxes, boxes.weights)
    packs = (weight_pack, pixel_pack) if boxes.last else (pixel_pack, weight_pack)
    plain = Variant("descriptor", "pointer", swap=not boxes.last, kind="box")
    plain = replace(plain, pack_a=packs[0], pack_b=packs[1])
    stores: tuple[Via, ...] = ("pointer",) if boxes.last else ("descriptor", "pointer")
    for store in stores:
        yield replace(plain, store=store)
        yield replace(plain, store=store, persistent=True)
        if weight_pack and _may_pass_registers(boxes):
            yield replace(_unpacked(boxes, plain), store=store)
    if pays_to_split(boxes.blocks.roles, target):
        for share in SHARES:
            yield replace(plain, split=share)
        if weight_pack and _may_pass_registers(boxes):
            yield replace(_unpacked(boxes, plain), split="counter")


def _unpacked(boxes: Boxes, variant: Variant) -> Variant:
    """Return ``variant`` with weights as they lie, passing through registers."""
    if boxes.last:
        return replace(variant, pack_a=False, registers=True)
    return replace(variant, pack_b=False, registers=True)


def _may_pass_registers(boxes: Boxes) -> bool:
    """Whether weights need no copy as the first operand of wgmma, which takes it from registers in
    either way: worth a trial where a copy is long beside the product."""
    workload, tensor = boxes.blocks.workload, boxes.tensor(boxes.weights)
    is_tf32 = workload.precision == "tf32" and tensor.dtype == "float32"
    lies = boxes.weights.index[-1].single == boxes.channels.name
    return is_tf32 and lies and access.row_bytes(tensor) == 16


def _wants_copy(boxes: Boxes, read: Read) -> bool:
    """Whether an operand must be copied first: the copy engine wants rows of whole 16 bytes that
    run along an axis of the block, and some dtypes rows along K."""
    blocks, tensor = boxes.blocks, boxes.tensor(read)
    last = read.index[-1].single
    rows = [blocks.k.name]
    if read == boxes.weights and not wants_k_major(blocks.workload, tensor):
        rows.append(boxes.channels.name)
    return last not in rows or access.row_bytes(tensor) < 16


def _sketch(boxes: Boxes, variant: Variant, target: Target) -> Sketch:
    return Sketch(
        name=variant.name,
        workload=boxes.blocks.workload,
        steps=tuple(_steps(boxes, variant, target)),
        choices=_choices(boxes, variant),
        structure=box_structure(boxes, variant),
    )


def box_structure(boxes: Boxes, variant: Variant) -> Structure:
    """Return what bounds and features need to know of boxes built as ``variant``."""
    sides = tuple(Side(name, axis.extent) for name, axis in boxes.along)
    structure = structure_of(boxes.blocks, variant)
    if boxes.last:
        return replace(structure, n_sides=sides)
    return replace(structure, m_sides=sides)


def _steps(boxes: Boxes, variant: Variant, target: Target) -> Iterator[Step]:
    blocks = boxes.blocks
    name, k, channels = blocks.name, blocks.k, boxes.channels
    reduced, part = k.name, tuple[str, ...]()
    if variant.split:
        reduced, part = name(k, "_rest"), (name(k, "_part"),)
        yield SplitReduction(k.name, part[0], reduced, Open("split"), variant.split, Open("tile_k"))
    for choice, axis in boxes.along:
        yield Split(axis.name, name(axis, "0"), name(axis, "1"), Open(choice))
    yield Split(channels.name, name(channels, "0"), name(channels, "1"), Open(boxes.channel_choice))
    yield Split(reduced, name(k, "0"), name(k, "1"), Open("tile_k"))
    loop = name(k, "0")
    if blocks.outer_k:
        loop = name(k, "_all")
        yield Fuse((*(axis.name for axis in blocks.outer_k), name(k, "0")), loop)
    outer = name(boxes.side, "0")
    if len(boxes.along) > 1:
        yield Fuse(tuple(name(axis, "0") for _, axis in boxes.along), outer)
    inner = tuple(name(axis, "1") for _, axis in boxes.along)
    yield Tile((inner, (name(channels, "1"),), (name(k, "1"),)))
    sides = (outer, name(channels, "0"))
    others = tuple(axis.name for axis in blocks.others)
    yield Bind((*others, *part, *(sides[::-1] if boxes.last else sides)), Open("group"))
    if variant.persistent:
        yield Persist(target.multiprocessors, Open("ctas"))
    yield Order((loop,))
    yield from _data_steps(boxes, variant)
    yield Tensorize(variant.swap, variant.registers)
    yield CacheWrite(variant.store)
    yield Pipeline(Open("stages"))
    yield Warps(Open("warps"))
    if variant.joins:
        yield from join_steps(blocks, target)


def _data_steps(boxes: Boxes, variant: Variant) -> Iterator[Step]:
    blocks, nest = boxes.blocks, 2 if variant.joins else 1
    for read in (boxes.pixels, boxes.weights):
        is_packed = variant.pack_b if read == blocks.roles.b else variant.pack_a
        tensor, order = boxes.tensor(read), _order(boxes, read, is_packed)
        source, phases = tensor.name, _phases(boxes, read)
        dims = tuple((d,) for d in order)
        if is_packed:
            source = blocks.fresh(f"{tensor.name}_packed")
            yield Pack(tensor.name, source, order, padded_row_bytes(tensor, order))
            yield from packing_steps(tensor, order, nest)
            nest, phases = nest + 1, tuple(phases[d] for d in order)
            dims = tuple((d,) for d in range(len(order)))
        if dims != tuple((d,) for d in range(len(dims))) or max(phases) > 1:
            view = blocks.fresh(f"{source}_view")
            yield View(source, view, dims, phases if max(phases) > 1 else ())
            source = view
        yield CacheRead(source, "descriptor")
    if variant.store == "descriptor":
        for tensor_name in block_inputs(blocks):
            yield CacheRead(tensor_name, "descriptor")


def _order(boxes: Boxes, read: Read, is_packed: bool) -> tuple[int, ...]:
    """Return the order of an operand's dimensions: those without an axis of the block first, so
    that the reshaped box stays in shared memory, and last the one that rows run along."""
    held = {axis.name for _, axis in boxes.along} | {boxes.channels.name}
    free = [n for n, form in enumerate(read.index) if not held & set(form.axes)]
    along = [n for n, form in enumerate(read.index) if held & set(form.axes)]
    k = _dimension(read, boxes.blocks.k)
    free.remove(k) if k in free else None
    if k is None:
        return (*free, *along)
    lies_last = read == boxes.weights and along[-1:] == [len(read.index) - 1]
    return (*free, k, *along) if lies_last and not is_packed else (*free, *along, k)


def _phases(boxes: Boxes, read: Read) -> tuple[int, ...]:
    """Return the step of each dimension: how far neighbouring pixels of a box lie apart."""
    axes = {axis.name: axis for _, axis in boxes.along}
    return tuple(
        math.prod(_step(form, axes[name]) for name in form.axes if name in axes)
        for form in read.index
    )


def _choices(boxes: Boxes, variant: Variant) -> tuple[Choice, ...]:
    domains: dict[str, tuple[int, ...]] = {
        name: _covering(PIXELS[name], axis.extent) for name, axis in boxes.along
    }
    if math.prod(domain[-1] for domain in domains.values()) < BOX_PIXELS[0]:
        domains["tile_x"] = tuple(v for v in PIXELS["tile_x"] if v <= BOX_PIXELS[0])
    domains |= {
        boxes.channel_choice: _covering(TILE_N, boxes.channels.extent),
        "tile_k": _depths(boxes),
        "stages": STAGES,
        "warps": WARPS,
        "group": GROUP,
    }
    if variant.split:
        most = max(2, boxes.blocks.k.extent // 32)
        domains["split"] = tuple(s for s in SPLIT if s <= most)
    if variant.persistent:
        domains["ctas"] = CTAS
    return tuple(Choice(name, domain) for name, domain in domains.items())


def _depths(boxes: Boxes) -> tuple[int, ...]:
    extent = boxes.blocks.k.extent
    depths = _covering(DEPTHS, extent)
    if max(_phases(boxes, boxes.pixels)) > 1:
        # A view in phases has the channels of several pixels in a row: blocks end with a pixel.
        depths = tuple(d for d in depths if extent % d == 0) or depths
    long = tuple(d for d in depths if d >= LONG_DEPTH)
    return long if long and extent >= LONG_DEPTH else depths


def _covering(domain: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """Return the values that are not twice ``extent`` or more, at least the first."""
    return tuple(value for value in domain if value < 2 * extent) or domain[:1]
