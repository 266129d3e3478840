"""Products through windows, and products whose sides have several axes: implicit GEMM.

All axes of M are fused, and all of N; pointers are recovered from the fused axis once, and a turn
of the loop moves them by a scalar. What a window reads outside of an operand is masked. Two ways
to go through K: tap by tap, a block of the axis that both operands hold plainly (channels) at a
time; or all of K fused, so that a block crosses taps, where that axis is short or lies apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from search_space.rules.contraction import legal_sketches, plain_variants
from search_space.rules.pack import wants_k_major
from search_space.rules.role import Blocking, Contraction, contraction, extent_of, fused_blocking
from search_space.rules.variant import Variant, k_major
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload

#: Extents of the plain axis of K below which a block of it would be mostly padding.
FEW = 16


def gather_sketches(workload: Workload, target: Target) -> tuple[Sketch, ...] | str:
    """Return every legal variant, or one sentence on why none applies."""
    roles = contraction(workload)
    if isinstance(roles, str):
        return roles
    if not roles.windowed and len(roles.m) == len(roles.n) == 1:
        return "no operand is read through windows, and each side has one axis"
    found, reasons = list[Sketch](), list[str]()
    for taps in (False, True):
        blocks = fused_blocking(workload, roles, taps=taps)
        if isinstance(blocks, str):
            reasons.append(blocks)
        else:
            found += legal_sketches(blocks, _variants(blocks, target, taps=taps), target)
    return tuple(found) or "; ".join(reasons) or "no variant is legal"


def _variants(blocks: Blocking, target: Target, *, taps: bool) -> Iterator[Variant]:
    roles = blocks.roles
    crosses = _crosses(blocks)
    if not crosses if taps else crosses and blocks.k.extent < FEW:
        return
    scattered = _scatters(blocks)
    for variant in plain_variants(roles, target, swaps=True):
        by_pointers = variant.load == variant.store == "pointer"
        if by_pointers and (variant.swap or not scattered):
            yield from _copies(blocks, replace(variant, kind="gather"), taps=taps)


def _copies(blocks: Blocking, variant: Variant, *, taps: bool) -> Iterator[Variant]:
    """Yield ``variant`` as operands lie, and with those copied whose rows do not run along K.

    What the tensor cores want along K is always copied: as they lay, such products took two to ten
    times as long (H200, 2026-12-03).
    """
    if taps:
        yield replace(variant, kind="gather.across")
        return
    roles = blocks.roles
    apart_a = not k_major(blocks.a, roles.a, blocks.k)
    apart_b = not k_major(blocks.b, roles.b, blocks.k)
    must = any(
        apart and wants_k_major(blocks.workload, tensor)
        for apart, tensor in ((apart_a, blocks.a), (apart_b, blocks.b))
    )
    if not must:
        yield variant
    if apart_a and apart_b and not roles.windowed:
        return
    if apart_a or apart_b:
        yield replace(variant, pack_a=apart_a, pack_b=apart_b)


def _scatters(blocks: Blocking) -> bool:
    """Whether Triton sees no neighbours among the columns of the stored block: they lie several
    elements apart, or are recovered from a fused axis by an odd extent.

    It then lays the lanes of a warp along the rows of the dot's result, so columns had better be
    computed as rows (read off its TTGIR; 324 us against 594, 16 x 16 x 32 x 32 x 32 transposed).
    """
    form = blocks.workload.stages[-1].index[-1]
    held = [axis for axis in blocks.parts(blocks.n) if axis.name in form.axes]
    if not held:
        return False
    return dict(form.terms)[held[0].name] != 1 or (blocks.n != held[0] and held[0].extent % 2 == 1)


def _crosses(blocks: Blocking) -> bool:
    """Whether blocks of K had better cross taps: there are several, and the axis that both
    operands hold plainly is short, or runs along the rows of neither."""
    roles: Contraction = blocks.roles
    held = [x for x in roles.k if any(f.single == x.name for f in roles.a.index)]
    plain = [x for x in held if any(f.single == x.name for f in roles.b.index)]
    longest = max((x.extent for x in plain), default=1)
    apart = not any(
        k_major(t, r, x) for x in plain for t, r in ((blocks.a, roles.a), (blocks.b, roles.b))
    )
    return extent_of(roles.k) > longest and (longest < 2 * FEW or apart)
