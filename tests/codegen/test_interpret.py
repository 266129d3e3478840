"""Every sketch run in Triton's interpreter, against the reference of the workload.

bfloat16 is left to the GPU: the interpreter forms its dots wrongly.
"""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.codegen.render import render
from autosched.te import operators, text
from measure.interpret import check
from measure.measurement import Evidence
from search_space.apply import IllegalStep
from search_space.expr import Affine, Call, Const, Read
from search_space.program import DescriptorArgument
from search_space.rules import sketches
from search_space.schedule import Schedule
from search_space.sketch import fill
from search_space.steps import (
    Bind,
    Guard,
    Order,
    Peel,
    ReduceLate,
    Split,
    Step,
    Tensorize,
    Tile,
    Unroll,
)
from search_space.workload import Axis, Stage, Tensor, Workload

EXTENTS = (1, 2, 15, 17, 33, 100)


def pairwise(values, factors: int):
    """Yield rows so that any two columns show every pair of ``values`` (a Latin square twice)."""
    count = len(values)
    for a, b in itertools.product(range(count), repeat=2):
        yield tuple(values[x] for x in (a, b, (a + b) % count))[:factors]


def assert_right(workload: Workload, schedule: Schedule, target, seed: int = 0) -> None:
    program = render(workload, schedule, target)
    outcome = check(workload, program, seed)
    assert isinstance(outcome, Evidence), f"{schedule.sketch} {schedule.choices}: {outcome}"
    assert outcome.max_error <= 1.0


@pytest.mark.parametrize("row", list(pairwise(EXTENTS, 3)), ids=str)
def test_odd_extents_in_every_layout(row, schedules, h200) -> None:
    m, n, k = row
    rng = random.Random(f"{row}")
    layouts = ((False, False), (False, True), (True, False), (True, True))
    trans_a, trans_b = layouts[EXTENTS.index(m) % 4 ^ EXTENTS.index(n) % 4]
    workload = operators.matmul(
        m,
        n,
        k,
        dtype=rng.choice(["float16", "float32"]),
        trans_a=trans_a,
        trans_b=trans_b,
        epilogue=rng.choice([(), ("bias", "relu"), ("bias", "residual", "gelu")]),
    )
    for _, schedule in schedules.random_legal(workload, h200, rng):
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_every_sketch_in_every_layout(dtype, trans_a, trans_b, schedules, h200) -> None:
    few = replace(h200, multiprocessors=3)
    workload = operators.matmul(
        40, 72, 520, dtype=dtype, trans_a=trans_a, trans_b=trans_b, epilogue=("bias", "residual")
    )
    found = list(schedules.random_legal(workload, few, random.Random(dtype)))
    assert any("descriptor" in sketch.name for sketch, _ in found)
    assert any("persistent" in sketch.name for sketch, _ in found)
    for _, schedule in found:
        assert_right(workload, schedule, few)


@pytest.mark.parametrize("via", ["workspace", "atomic", "counter"])
def test_shared_reductions(via: str, schedules, h200) -> None:
    workload = operators.matmul(40, 48, 1024, dtype="float16", epilogue=("bias", "silu"))
    shared = [
        (sketch, schedule)
        for sketch, schedule in schedules.random_legal(workload, h200, random.Random(via))
        if sketch.structure.split == via
    ]
    assert len(shared) >= 4
    for _, schedule in shared:
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize(
    "workload",
    [
        operators.matmul(70, 35, 100, dtype="float16", epilogue=("bias",)),
        operators.matmul(43, 48, 60, dtype="float16", trans_a=True),
        operators.matmul(40, 56, 80, dtype="float32", precision="tf32"),
        operators.batch_matmul(3, 37, 37, 64, dtype="float16"),
        operators.matmul(33, 19, 1030, dtype="float16"),
        operators.matmul(72, 68, 48, dtype="float32", trans_b=True),
    ],
    ids=lambda workload: workload.label,
)
def test_operands_packed_first(workload: Workload, schedules, h200) -> None:
    packed = [
        (sketch, schedule)
        for sketch, schedule in schedules.random_legal(workload, h200, random.Random(3))
        if sketch.structure.packs
    ]
    assert len(packed) >= 3
    for _, schedule in packed:
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize(
    "workload",
    [
        operators.matmul(140, 72, 100, dtype="float32", precision="tf32", epilogue=("bias",)),
        operators.matmul(
            72, 140, 100, dtype="float32", precision="tf32", trans_a=True, trans_b=True
        ),
        operators.batch_matmul(3, 72, 136, 48, dtype="float32", precision="tf32"),
    ],
    ids=lambda workload: workload.label,
)
def test_operands_through_registers(workload: Workload, schedules, h200) -> None:
    found = [
        schedule
        for sketch, schedule in schedules.random_legal(workload, h200, random.Random(5))
        if sketch.structure.registers
    ]
    assert len(found) == 2
    for schedule in found:
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize(
    "workload",
    [
        operators.matmul(133, 40, 80, dtype="float16", epilogue=("bias", "residual", "gelu")),
        operators.matmul(136, 144, 64, dtype="float16", trans_a=True, epilogue=("row_scale",)),
        operators.batch_matmul(2, 24, 136, 72, dtype="float16", trans_b=True),
    ],
    ids=lambda workload: workload.label,
)
def test_the_end_of_an_axis_apart(workload: Workload, schedules, h200) -> None:
    one = replace(h200, multiprocessors=1)
    peeled = [
        (sketch, schedule)
        for sketch, schedule in schedules.random_legal(workload, one, random.Random(2))
        if sketch.structure.peeled != "none"
    ]
    assert len(peeled) >= 2
    for _, schedule in peeled:
        assert_right(workload, schedule, one)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(2, 40), min_size=3, max_size=3), st.data())
def test_any_cut_of_any_axis_is_right(h200, extents: list[int], data: st.DataObject) -> None:
    workload = operators.matmul(*extents, dtype="float16", epilogue=("bias", "relu"))
    axis = data.draw(st.sampled_from("ij"))
    steps: list[Step] = [
        Peel(axis, "body", "rest", data.draw(st.integers(1, extents["ij".index(axis)] - 1)))
    ]
    for nest, own in enumerate(("body", "rest")):
        for name in "ijk":
            factor = data.draw(st.sampled_from([16, 32]))
            steps.append(Split(own if name == axis else name, f"{name}0", f"{name}1", factor, nest))
        steps.append(Tile((("i1",), ("j1",), ("k1",)), nest))
        steps.append(Bind(("i0", "j0"), nest=nest))
        steps.append(Guard(own, data.draw(st.sampled_from(["mask", "wrap"])), nest))
        steps.append(Tensorize(data.draw(st.booleans()), nest))
    assert_right(workload, Schedule(tuple(steps)), h200)


def test_an_operand_that_all_batches_share_by_a_stride_of_0(schedules, h200) -> None:
    stored = {
        "A": text.Stored((3, 40, 64), "float16"),
        "B": text.Stored((3, 64, 48), "float16", (0, 48, 1)),
    }
    workload = text.parse(
        "C[b,i,j] += A[b,i,k] * B[b,k,j]",
        sizes={"b": 3, "i": 40, "j": 48, "k": 64},
        inputs=stored,
    )
    found = list(schedules.typical(workload, h200))
    assert found
    assert not any("descriptor" in sketch.name for sketch, _ in found)
    for _, schedule in found:
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize("trans_b", [False, True])
def test_batches(trans_b: bool, schedules, h200) -> None:
    workload = operators.batch_matmul(
        5, 33, 40, 72, dtype="float16", trans_b=trans_b, epilogue=("bias",)
    )
    for _, schedule in schedules.random_legal(workload, h200, random.Random(7)):
        assert_right(workload, schedule, h200)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "scale:-0.5"])
def test_every_activation(activation: str, schedules, h200) -> None:
    workload = operators.matmul(64, 64, 64, dtype="float32", epilogue=(activation,))
    _, schedule = next(iter(schedules.typical(workload, h200)))
    assert_right(workload, schedule, h200)


@pytest.mark.parametrize(
    "workload",
    [
        operators.batch_matmul(3, 40, 24, 64, dtype="float16", trans_b=True, epilogue=("softmax",)),
        operators.matmul(33, 100, 64, dtype="float32", epilogue=("bias", "softmax")),
        operators.matmul(17, 1, 32, dtype="float16", epilogue=("scale:0.5", "softmax")),
    ],
    ids=lambda workload: workload.label,
)
def test_rows_reduced_again_within_a_block(workload: Workload, schedules, h200) -> None:
    found = list(schedules.random_legal(workload, h200, random.Random(5), block=128))
    assert len(found) >= 3
    for _, schedule in found:
        assert_right(workload, schedule, h200)


def test_integers(schedules, h200) -> None:
    workload = operators.matmul(40, 48, 128, dtype="int8", trans_b=True)
    for _, schedule in schedules.typical(workload, h200):
        assert_right(workload, schedule, h200)


def test_factors_that_are_inputs(schedules, h200) -> None:
    factors = ("scale_a", "scale_b", "row_scale", "column_scale", "bias")
    workload = operators.matmul(40, 48, 64, dtype="float16", epilogue=factors)
    for _, schedule in schedules.typical(workload, h200):
        assert_right(workload, schedule, h200)


def test_mixed_output_dtype(schedules, h200) -> None:
    workload = operators.matmul(64, 72, 80, dtype="float16", out_dtype="float32")
    for _, schedule in schedules.typical(workload, h200):
        assert_right(workload, schedule, h200)


def test_more_axes_than_the_pattern_holds(schedules, h200) -> None:
    ax = Affine.axis
    p, i, q, j, r, k = map(ax, "piqjrk")
    workload = Workload(
        (
            *(Axis(x, e, "spatial") for x, e in (("p", 2), ("i", 20), ("q", 3), ("j", 40))),
            *(Axis(x, e, "reduction") for x, e in (("r", 3), ("k", 24))),
        ),
        (Tensor("A", (2, 20, 3, 24), "float16"), Tensor("B", (3, 24, 3, 40), "float16")),
        (Tensor("acc", (2, 20, 3, 40), "float32"),),
        Tensor("C", (2, 20, 3, 40), "float16"),
        (
            Stage(
                "acc",
                (p, i, q, j),
                Call("mul", (Read("A", (p, i, r, k)), Read("B", (r, k, q, j)))),
                "sum",
            ),
            Stage("C", (p, i, q, j), Read("acc", (p, i, q, j))),
        ),
    )
    for _, schedule in schedules.typical(workload, h200):
        assert_right(workload, schedule, h200)


def row_maximum(rows: int, columns: int) -> Workload:
    i, k = Affine.axis("i"), Affine.axis("k")
    return Workload(
        (Axis("i", rows, "spatial"), Axis("k", columns, "reduction")),
        (Tensor("X", (rows, columns), "float16"),),
        (Tensor("most", (rows,), "float32"),),
        Tensor("Y", (rows,), "float16"),
        (
            Stage("most", (i,), Call("sub", (Read("X", (i, k)), Const(100.0))), "max"),
            Stage("Y", (i,), Read("most", (i,))),
        ),
    )


@pytest.mark.parametrize("columns", [1, 31, 32, 100])
def test_what_a_mask_fills_is_the_identity_of_the_reduction(columns: int, h200) -> None:
    """All values are far below zero: a masked element taken for 0 would win the maximum."""
    workload = row_maximum(37, columns)
    schedule = Schedule(
        (
            Split("i", "i0", "i1", 16),
            Split("k", "k0", "k1", 32),
            Tile((("i1",), ("k1",))),
            Bind(("i0",)),
            Order(("k0",)),
        )
    )
    assert_right(workload, schedule, h200)


@pytest.mark.parametrize("mode", ["mask", "wrap"])
@pytest.mark.parametrize("unrolled", [False, True])
def test_reductions_without_a_dot(mode: str, unrolled: bool, h200) -> None:
    workload = operators.matmul(21, 19, 50, dtype="float16", epilogue=("bias",))
    steps = [
        Split("i", "i0", "i1", 16),
        Split("j", "j0", "j1", 8),
        Split("k", "k0", "k1", 16),
        Tile((("i1",), ("j1",), ("k1",))),
        Bind(("i0", "j0")),
        Guard("i", mode),
        Guard("j", mode),
    ]
    if unrolled:
        steps.append(Unroll("k0"))
    assert_right(workload, Schedule(tuple(steps)), h200)


def test_groups_of_several_axes(h200) -> None:
    """One dimension of the block made of two axes, as a tile of pixels is."""
    workload = operators.batch_matmul(6, 10, 24, 16, dtype="float32")
    schedule = Schedule(
        (
            Split("b", "b0", "b1", 2),
            Split("i", "i0", "i1", 8),
            Split("j", "j0", "j1", 16),
            Split("k", "k0", "k1", 16),
            Tile((("b1", "i1"), ("j1",), ("k1",))),
            Bind(("b0", "i0", "j0")),
        )
    )
    assert_right(workload, schedule, h200)


def test_offsets_past_32_bits_are_computed_in_64(schedules, h200) -> None:
    workload = operators.matmul(70_000, 40_000, 64, dtype="float16")
    for sketch, schedule in schedules.typical(workload, h200):
        program = render(workload, schedule, h200)
        by_pointer = [
            a for k in program.kernels for a in k.arguments if not isinstance(a, DescriptorArgument)
        ]
        stores_pointer = any(a.buffer == "C" for a in by_pointer)
        assert ("tl.int64" in program.source) == stores_pointer, sketch.name


def test_illegal_schedules_are_not_rendered(h200) -> None:
    workload = operators.matmul(64, 64, 64, dtype="float16")
    with pytest.raises(IllegalStep):
        render(workload, Schedule(()), h200)


@pytest.mark.parametrize(
    "sizes", [(1, 33, 300), (3, 20, 1100), (4, 1, 640), (37, 2, 130), (1, 1, 5)], ids=str
)
def test_rows_summed_late(sizes, schedules, h200) -> None:
    rng = random.Random(f"{sizes}")
    workload = operators.matmul(
        *sizes, dtype=rng.choice(["float16", "float32"]), trans_b=True, epilogue=("bias", "silu")
    )
    found = [
        (sketch, fill(sketch, {c.name: rng.choice(c.domain) for c in sketch.choices}))
        for sketch in sketches(workload, h200)
        if not sketch.structure.dot
        for _ in range(3)
    ]
    assert found
    for _, schedule in found:
        assert_right(workload, schedule, h200)


def test_a_late_maximum_is_that_of_the_reference(h200) -> None:
    i, j = (Affine.axis(name) for name in "ij")
    workload = Workload(
        (Axis("i", 5, "spatial"), Axis("j", 45, "reduction")),
        (Tensor("A", (5, 45), "float32"),),
        (Tensor("most", (5,), "float32"),),
        Tensor("C", (5,), "float32"),
        (
            Stage("most", (i,), Call("sub", (Read("A", (i, j)), Const(9.0))), "max"),
            Stage("C", (i,), Read("most", (i,))),
        ),
    )
    steps = (
        Split("i", "i0", "i1", 4),
        Split("j", "j0", "j1", 16),
        Tile((("i1",), ("j1",))),
        Bind(("i0",)),
        ReduceLate(),
    )
    assert_right(workload, Schedule(steps), h200)
