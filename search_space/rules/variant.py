"""The ways to build a contraction, and what bounds and features need to know of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from search_space import access
from search_space.expr import Call, Read, reads, walk
from search_space.rules.pack import wants_k_major
from search_space.rules.peel import Rest
from search_space.rules.role import Blocking, extent_of
from search_space.sketch import Structure
from search_space.workload import Axis, Precision, Tensor

Via = Literal["pointer", "descriptor"]
Side = Literal["a", "b"]
Share = Literal["workspace", "atomic", "counter"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build a contraction."""

    load: Via
    store: Via
    persistent: bool = False
    split: Share | None = None
    swap: bool = False
    registers: bool = False
    pack_a: bool = False
    pack_b: bool = False
    #: Of the operands that want packing, only the constant one is packed.
    prepared: bool = False
    #: Operands are packed that only gain by whole lines in their rows.
    padded: bool = False
    #: Whether blocks are multiplied on the tensor cores.
    dot: bool = True
    #: Operands whose packed copies have M or N along their rows, not K.
    turned: tuple[Side, ...] = ()
    peel: Rest | None = None
    #: What sketches of this kind are called: pointers into windows gather.
    kind: str = "contraction"

    def copied_axis(self, blocks: Blocking, side: Side) -> Axis | None:
        """Return the axis that runs along the rows of a packed copy, if packing chooses it."""
        if side in self.turned:
            return blocks.m if side == "a" else blocks.n
        is_flat = self.kind.startswith("flat")
        wants = wants_k_major(blocks.workload, getattr(blocks, side))
        along_k = is_flat or blocks.outer_k or wants
        return blocks.k if along_k else None

    @property
    def joins(self) -> bool:
        """Whether a second nest joins the shares of a reduction."""
        return self.split in ("workspace", "atomic")

    @property
    def name(self) -> str:
        """The sketch's name: what differs from the plainest variant."""
        words = [self.kind, self.load] if self.dot else ["rows"]
        words += ["direct"] if self.load == "descriptor" and self.store == "pointer" else []
        if self.pack_a or self.pack_b:
            words += ["prepared" if self.prepared else "padded" if self.padded else "packed"]
            words += self._sides()
        words += ["peeled", self.peel.side] if self.peel else []
        words += ["swapped"] if self.swap else []
        words += ["registers"] if self.registers else []
        words += ["persistent"] if self.persistent else []
        words += ["split", self.split] if self.split else []
        return ".".join(words)

    def _sides(self) -> list[str]:
        """Return which operands are packed, where a sketch with others packed may stand beside."""
        if self.padded and not (self.pack_a and self.pack_b):
            return ["a" if self.pack_a else "b"]
        gathers = self.kind != "contraction" and self.pack_a and self.pack_b
        return ["both"] if gathers or self.padded or len(self.turned) == 2 else []


def structure_of(blocks: Blocking, variant: Variant) -> Structure:
    """Return what bounds and features need to know of a contraction built as ``variant``."""
    workload, a, b = blocks.workload, blocks.a, blocks.b
    later = workload.stages[1:]
    extra = {read.tensor for stage in later for read in reads(stage.value)} - {a.name, b.name}
    # What is packed of a constant is packed once, before any run.
    packed = [t for t, is_packed in ((a, variant.pack_a), (b, variant.pack_b)) if is_packed]
    timed = [tensor for tensor in packed if not tensor.constant]
    calls = (node for stage in later for node in walk(stage.value) if isinstance(node, Call))
    rest = variant.peel
    return Structure(
        batch=extent_of(blocks.others),
        m=rest.at if rest and rest.side == "m" else blocks.m.extent,
        n=rest.at if rest and rest.side == "n" else blocks.n.extent,
        k=extent_of(blocks.roles.k),
        taps=extent_of(blocks.outer_k) if blocks.roles.windowed else 1,
        a_elements=_stored_elements(blocks, "a"),
        b_elements=_stored_elements(blocks, "b"),
        a_straddles=not variant.pack_a and access.straddles(a),
        b_straddles=not variant.pack_b and access.straddles(b),
        a_scattered=not variant.pack_a and _is_scattered(blocks, "a"),
        b_scattered=not variant.pack_b and _is_scattered(blocks, "b"),
        masked=variant.load == "pointer" and any(_leaves(blocks, r) for r in blocks.roles.windowed),
        a_dtype=a.dtype,
        b_dtype=b.dtype,
        accumulator_dtype=workload.tensors[workload.stages[0].output].dtype,
        output_dtype=workload.output.dtype,
        arithmetic=arithmetic(a.dtype, workload.precision),
        a_k_major=_read_k_major(blocks, variant, "a", is_packed=variant.pack_a),
        b_k_major=_read_k_major(blocks, variant, "b", is_packed=variant.pack_b),
        a_row_bytes=16 if variant.pack_a else access.row_bytes(a),
        b_row_bytes=16 if variant.pack_b else access.row_bytes(b),
        output_row_bytes=access.row_bytes(workload.output),
        load=variant.load,
        store=variant.store,
        persistent=variant.persistent,
        split=variant.split or "none",
        epilogue_bytes=sum(t.size_bytes for t in workload.inputs if t.name in extra),
        epilogue_calls=len(list(calls)),
        swap=variant.swap,
        registers=variant.registers,
        block_inputs=len(list(block_inputs(blocks))) if variant.store == "descriptor" else 0,
        packs=len(timed),
        packed_bytes=2 * sum(tensor.size_bytes for tensor in timed),
        dot=variant.dot,
        peeled=rest.side if rest else "none",
        rest=rest.extent if rest else 0,
    )


def block_inputs(blocks: Blocking) -> Iterator[str]:
    """Yield the epilogue's inputs that run along both M and N and lie as the output does."""
    workload = blocks.workload
    sides = {axis.name for side in (blocks.m, blocks.n) for axis in blocks.parts(side)}
    for read in (r for stage in workload.stages[1:] for r in reads(stage.value)):
        tensor = workload.tensors[read.tensor]
        is_block = sides <= {form.single for form in read.index}
        alike = access.row_bytes(tensor) == 16 and tensor.shape == workload.output.shape
        if tensor in workload.inputs and is_block and alike:
            yield tensor.name


def arithmetic(dtype: str, precision: Precision) -> str:
    """Return the key of the target's rates: the dtype, or how float32 or float8 is multiplied."""
    if dtype == "float32":
        return "float32" if precision == "ieee" else precision
    return "float8_ieee" if dtype == "float8_e4m3" and precision != "fast" else dtype


def _is_scattered(blocks: Blocking, side: Side) -> bool:
    """Whether an operand's rows run along an axis that its block does not hold, such as a tap."""
    spatial = blocks.m if side == "a" else blocks.n
    held = {axis.name for axis in (*blocks.parts(spatial), *blocks.parts(blocks.k))}
    return held.isdisjoint(getattr(blocks.roles, side).index[-1].axes)


def _stored_elements(blocks: Blocking, side: Side) -> int:
    """Return the elements of an operand that windows read more than once, else 0."""
    read = getattr(blocks.roles, side)
    return int(getattr(blocks, side).elements) if read in blocks.roles.windowed else 0


def _leaves(blocks: Blocking, read: Read) -> bool:
    """Whether a window looks past the ends of its tensor."""
    shape = blocks.workload.tensors[read.tensor].shape
    bounds = (form.bounds(blocks.workload.extents) for form in read.index)
    return any(low < 0 or high >= e for (low, high), e in zip(bounds, shape, strict=True))


def _read_k_major(blocks: Blocking, variant: Variant, side: Side, *, is_packed: bool) -> bool:
    """Whether K runs along the rows of an operand as the dot's kernel reads it."""
    copied = variant.copied_axis(blocks, side) if is_packed else None
    if copied is not None:
        return copied == blocks.k
    return k_major(getattr(blocks, side), getattr(blocks.roles, side), blocks.k)


def k_major(tensor: Tensor, read: Read, axis: Axis) -> bool:
    """Whether ``axis`` runs along the rows of ``tensor``."""
    return tensor.strides[-1] == 1 and read.index[-1].single == axis.name
