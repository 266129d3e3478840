"""Which kernels prepare, what a program refuses, and when a fingerprint changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.codegen.render import render
from autosched.te.declared import with_constants
from autosched.te.operators import matmul
from search_space import target
from search_space.program import (
    BadProgram,
    Buffer,
    BufferRole,
    Kernel,
    PointerArgument,
    Program,
    Traffic,
    preparing,
)
from search_space.rules import sketches
from search_space.sketch import Sketch, fill
from search_space.workload import Workload

H200 = target.load("h200")


def named(workload: Workload, name: str) -> Sketch:
    return next(s for s in sketches(workload, H200) if s.name == name)


def rendered(workload: Workload, name: str = "contraction.descriptor.direct.packed") -> Program:
    sketch = named(workload, name)
    middle = {c.name: c.domain[len(c.domain) // 2] for c in sketch.choices}
    return render(workload, fill(sketch, middle), H200)


def buffer(name: str, role: BufferRole, **changes: bool) -> Buffer:
    return Buffer(name, (4,), (1,), "float16", role, **changes)


BUFFERS = (
    buffer("X", "input"),
    buffer("W", "input", constant=True),
    buffer("P", "workspace"),
    buffer("Z", "workspace", zeroed=True),
    buffer("Y", "output"),
)


def marks(*kernels: tuple[str, str]) -> tuple[bool, ...]:
    return preparing(BUFFERS, [Traffic(frozenset(r), frozenset(w)) for r, w in kernels])


def test_what_reads_constants_alone_and_writes_what_nothing_else_does_prepares() -> None:
    assert marks(("W", "P"), ("XP", "Y")) == (True, False)
    assert marks(("XW", "P"), ("XP", "Y")) == (False, False)  # reads what changes
    assert marks(("W", "P"), ("X", "PY")) == (False, False)  # is written over
    assert marks(("W", "Z"), ("XZ", "Y")) == (False, False)  # is cleared before every run
    assert marks(("W", "Y")) == (False,)
    assert marks(("", "P"), ("WP", "Y")) == (False, False)


def test_only_a_pack_of_a_constant_operand_prepares() -> None:
    plain = matmul(128, 100, 68, dtype="float16")
    assert [k.prepares for k in rendered(plain).kernels] == [False, False, False]
    program = rendered(with_constants(plain, ["B"]))
    assert [(k.name, k.prepares) for k in program.kernels] == [
        ("kernel_pack_A", False),
        ("kernel_pack_B", True),
        ("kernel", False),
    ]
    assert program.prepared == ("B",)


def test_shares_of_a_product_of_constants_are_no_preparation() -> None:
    work = matmul(64, 64, 4096, dtype="float16", epilogue=("bias",), constant=("a", "b"))
    program = rendered(work, "contraction.pointer.split.workspace")
    assert [k.prepares for k in program.kernels] == [False, False]


def test_programs_without_constants_keep_their_fingerprint() -> None:
    kernel = Kernel("k", "text", (PointerArgument("X"), PointerArgument("Y")), (1, 1, 1), 4, 1)
    known = Program((buffer("X", "input"), buffer("Y", "output")), (kernel,), 1)
    assert known.fingerprint == "d300982752e4b735"  # as logs hold it
    plain = rendered(matmul(128, 100, 68, dtype="float16"))
    constant = rendered(matmul(128, 100, 68, dtype="float16", constant=("b",)))
    assert constant.source == plain.source
    assert constant.fingerprint != plain.fingerprint


@pytest.mark.parametrize("taken", ["X", "Z", "Y"])
def test_a_preparation_of_anything_else_is_refused(taken: str) -> None:
    kernel = Kernel("k", "", (PointerArgument("W"), PointerArgument("P")), (1, 1, 1), 4, 1)
    prepares = replace(kernel, prepares=True)
    Program(BUFFERS, (prepares,), 1)
    wrong = replace(prepares, arguments=(*kernel.arguments, PointerArgument(taken)))
    with pytest.raises(BadProgram, match=f"k prepares, but '{taken}' is neither"):
        Program(BUFFERS, (wrong,), 1)
    with pytest.raises(BadProgram, match="k and l both prepare 'P'"):
        Program(BUFFERS, (prepares, replace(prepares, name="l")), 1)


def test_a_constant_is_part_of_the_key_and_of_nothing_when_it_is_not_there() -> None:
    plain = matmul(64, 64, 64, dtype="float16")
    one, other = with_constants(plain, ["A"]), with_constants(plain, ["B"])
    assert len({plain.key, one.key, other.key}) == 3
    assert one.canonical.replace(" constant", "") == plain.canonical
    assert other.constants == ("B",)


def test_packs_of_constants_count_for_nothing_and_are_tried_alone() -> None:
    plain = matmul(128, 100, 68, dtype="float16")
    constant = with_constants(plain, ["B"])
    cost = [
        (s.packs, s.packed_bytes)
        for s in (
            named(plain, "contraction.descriptor.direct.packed").structure,
            named(constant, "contraction.descriptor.direct.packed").structure,
            named(constant, "contraction.pointer.prepared").structure,
        )
    ]
    assert cost == [(2, 2 * 2 * 68 * (128 + 100)), (1, 2 * 2 * 68 * 128), (0, 0)]
    assert not any("prepared" in s.name for s in sketches(plain, H200))
