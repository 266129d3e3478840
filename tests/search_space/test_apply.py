"""Every step on a small matmul: what it leaves, and every refusal, word for word."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.te import operators
from search_space.apply import IllegalStep, apply, replay
from search_space.expr import reads
from search_space.index import Index, Var, variable
from search_space.nest import Nest, initial
from search_space.schedule import Schedule
from search_space.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    Fuse,
    Guard,
    Order,
    Pack,
    Peel,
    Persist,
    Pipeline,
    ReduceLate,
    Split,
    SplitReduction,
    Step,
    Tensorize,
    Tile,
    Unroll,
    Vectorize,
    Warps,
)
from search_space.workload import Workload

TILED = (
    Split("i", "i0", "i1", 64),
    Split("j", "j0", "j1", 64),
    Split("k", "k0", "k1", 32),
    Tile((("i1",), ("j1",), ("k1",))),
)
DONE = (*TILED, Bind(("i0", "j0"), 4), Tensorize())


def matmul(m: int = 100, n: int = 128, k: int = 256, **options: object) -> Workload:
    return operators.matmul(m, n, k, dtype="float16", **options)


def after(*steps: Step, workload: Workload | None = None) -> tuple[Nest, ...]:
    nests: tuple[Nest, ...] = (initial(workload or matmul()),)
    for step in steps:
        nests = apply(nests, step)
    return nests


def test_split_defines_an_axis_by_two_and_marks_the_overhang() -> None:
    (nest,) = after(Split("i", "i0", "i1", 64))
    assert nest.extents["i0"] == 2
    assert nest.extents["i1"] == 64
    assert nest.definitions["i"] == variable("i0").scale(64) + variable("i1")
    assert nest.overhangs == ("i",)
    assert "i" not in nest.leaves


def test_split_that_divides_overhangs_nothing() -> None:
    (nest,) = after(Split("k", "k0", "k1", 32))
    assert nest.overhangs == ()
    assert nest.kinds["k0"] == nest.kinds["k1"] == "reduction"


def test_fuse_recovers_its_axes_by_division() -> None:
    (nest,) = after(Fuse(("i", "j"), "m"))
    assert nest.extents["m"] == 100 * 128
    for i, j in ((0, 0), (3, 5), (99, 127)):
        m = i * 128 + j
        assert _value(nest.resolve("i"), {"m": m}) == i
        assert _value(nest.resolve("j"), {"m": m}) == j


def test_fuse_then_split_needs_no_division() -> None:
    (nest,) = after(Fuse(("i", "j"), "m"), Split("m", "m0", "m1", 128))
    assert nest.resolve("i") == variable("m0")
    assert nest.resolve("j") == variable("m1")


def test_leaves_of_extent_1_resolve_to_nothing() -> None:
    (nest,) = after(Split("k", "k0", "k1", 256))
    assert nest.resolve("k") == variable("k1")


def test_loops_are_what_is_neither_bound_nor_held() -> None:
    (nest,) = after(*DONE)
    assert nest.loops == ("k0",)


def test_split_reduction_appends_the_nest_that_joins() -> None:
    first, second = after(SplitReduction("k", "kp", "kr", 4, "workspace", 32))
    assert first.extents["kp"] == 4
    assert first.extents["kr"] == 64
    assert first.output.shape == (4, 100, 128)
    assert first.output.dtype == "float32"
    assert second.output.name == "C"
    assert second.statements[0].reducer == "sum"
    assert not second.definitions


def test_atomic_parts_share_one_workspace() -> None:
    first, second = after(SplitReduction("k", "kp", "kr", 4, "atomic", 32))
    assert first.atomic
    assert first.output.shape == (100, 128)
    assert [stage.reducer for stage in second.statements] == [None]


def test_the_last_part_to_arrive_joins_within_one_nest() -> None:
    (nest,) = after(SplitReduction("k", "kp", "kr", 4, "counter", 32))
    assert nest.counter == "arrived"
    assert [stage.output for stage in nest.statements] == ["acc", "partial", "total", "C"]
    assert [tensor.name for tensor in nest.workspaces] == ["partial"]


def test_uneven_parts_overhang() -> None:
    first, _ = after(SplitReduction("k", "kp", "kr", 3, "workspace", 32))
    assert first.extents["kr"] == 96
    assert first.overhangs == ("k",)


def test_pack_appends_the_nest_that_copies_and_reads_the_copy() -> None:
    main, copy = after(Pack("A", "A2", (1, 0)), workload=matmul(n=700))
    assert main.tensor["A2"].shape == (256, 100)
    assert main.tensor["A2"].strides == (104, 1)
    assert [read.tensor for read in reads(main.statements[0].value)] == ["A2", "B"]
    assert (copy.turn, main.turn) == (-1, 0)
    assert copy.output == replace(main.tensor["A2"], shape=(256, 104))


def test_peel_gives_each_end_of_an_axis_a_nest() -> None:
    body, rest = after(Peel("i", "ib", "ir", 96))
    assert (body.extents["ib"], rest.extents["ir"]) == (96, 4)
    assert body.resolve("i") == variable("ib")
    assert rest.resolve("i") == variable("ir") + Index((), 96)
    assert body.output == rest.output
    assert body.turn == rest.turn
    assert body.name != rest.name


def test_what_was_split_and_packed_before_peeling_is_so_in_both_nests() -> None:
    nests = after(Pack("A", "A2", (0, 1)), Split("k", "k0", "k1", 32), Peel("i", "ib", "ir", 64))
    body, _, rest = nests
    assert rest.definitions["k"] == body.definitions["k"]
    assert [read.tensor for read in reads(rest.statements[0].value)] == ["A2", "B"]


@given(st.lists(st.integers(1, 40), min_size=3, max_size=3), st.data())
def test_peeled_nests_write_every_element_once(extents: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from("ij"))
    extents["ij".index(axis)] += 1
    workload = matmul(*extents)
    at = data.draw(st.integers(1, workload.extents[axis] - 1))
    tile = data.draw(st.sampled_from([1, 2, 8, 16]))
    steps = [Peel(axis, "body", "rest", at), Split("body", "x0", "x1", tile)]
    written: list[int] = []
    for nest in after(*steps, Split("rest", "x0", "x1", 4, nest=1), workload=workload):
        ends = [range(nest.extents[name]) for name in ("x0", "x1")]
        points = [{"x0": a, "x1": b} for a, b in itertools.product(*ends)]
        own = nest.peeled[axis]
        inside = [p for p in points if _value(nest.resolve(own), p) < nest.extents[own]]
        written += [_value(nest.resolve(axis), point) for point in inside]
    assert sorted(written) == list(range(workload.extents[axis]))


def test_a_descriptor_stores_past_an_end_that_is_the_tensors_alone() -> None:
    tiled = (
        Split("ib", "i0", "i1", 16),
        Split("ir", "i0", "i1", 16, 1),
        *(Split(x, f"{x}0", f"{x}1", 32, nest) for x in "jk" for nest in (0, 1)),
        *(Tile((("i1",), ("j1",), ("k1",)), nest) for nest in (0, 1)),
    )
    after(Peel("i", "ib", "ir", 88), *tiled, CacheWrite("descriptor", nest=1))
    after(Peel("i", "ib", "ir", 88), *tiled, CacheRead("A", "descriptor"))
    with pytest.raises(IllegalStep, match="'ib' overhangs within dimension 0 of 'C'"):
        after(Peel("i", "ib", "ir", 88), *tiled, CacheWrite("descriptor"))


def test_what_is_reduced_again_is_not_peeled() -> None:
    with pytest.raises(IllegalStep, match="a later statement reduces over 'j'"):
        after(Peel("j", "jb", "jr", 64), workload=matmul(epilogue=("softmax",)))


def test_nests_keep_their_numbers_as_others_are_appended() -> None:
    nests = after(
        Pack("A", "A2", (0, 1)),
        SplitReduction("k", "kp", "kr", 4, "workspace", 32),
        Pack("B", "B2", (0, 1)),
    )
    assert [nest.turn for nest in nests] == [0, -1, 1, -1]


def test_a_finished_schedule_replays() -> None:
    (nest,) = replay(matmul(), Schedule(DONE))
    assert nest.swizzle == 4
    assert nest.tensorized


REFUSALS = [
    ((Split("x", "x0", "x1", 4),), "Split: there is no axis 'x'; leaves: i, j, k"),
    ((Split("i", "i0", "i1", 0),), "Split: factor is 0; want an integer of at least 1"),
    ((Split("i", "j", "i1", 4),), "Split: the name 'j' is taken"),
    ((Split("i", "z", "z", 4),), "Split: the name 'z' is given twice"),
    (
        (Split("i", "i0", "i1", 4), Split("i", "a", "b", 4)),
        "Split: 'i' has already been split or fused",
    ),
    ((Fuse(("i",), "f"),), "Fuse: it takes two axes or more"),
    ((Fuse(("i", "k"), "f"),), "Fuse: i, k are not all of one kind"),
    (
        (Bind(("k",)),),
        "Bind: 'k' is a reduction axis; SplitReduction lets programs share one",
    ),
    ((Bind(("i",)), Bind(("j",))), "Bind: the grid is already bound to i"),
    ((Bind(("i",), 4),), "Bind: a swizzle walks two axes, the grid has one"),
    ((Bind(("i",)), Split("i", "a", "b", 2)), "Split: 'i' is bound to the grid"),
    ((Persist(132),), "Persist: nothing is bound to the grid yet"),
    ((Tile((("i",),)),), "Tile: 'i' has extent 100; blocks take powers of two"),
    ((Tile((("k", "k"),)),), "Tile: an axis is named twice"),
    ((Tile(()),), "Tile: every group holds at least one axis"),
    ((*TILED, Tile((("i1",),))), "Tile: the nest is already tiled"),
    ((*TILED, Order(("k1",))), "Order: 'k1' is held in a block"),
    ((Guard("q", "mask"),), "Guard: there is no axis 'q'"),
    ((Guard("k", "wrap"),), "Guard: 'k' is reduced: wrapped elements would be summed twice"),
    ((*TILED, Vectorize("A", "i1", 8)), "Vectorize: 'i1' does not run along the rows of 'A'"),
    (
        (*TILED, Vectorize("A", "k1", 16)),
        "Vectorize: rows of 'A' are aligned to 16 bytes, 16 elements take 32",
    ),
    ((CacheRead("C", "pointer"),), "CacheRead: 'C' is not read; inputs: A, B"),
    ((CacheRead("A", "descriptor"),), "CacheRead: nothing is tiled yet"),
    (
        (*TILED, CacheWrite("pointer", 3)),
        "CacheWrite: 3 parts of 64 columns: want a power of two, 8 columns or more",
    ),
    (
        (*TILED, CacheWrite("pointer", 16)),
        "CacheWrite: 16 parts of 64 columns: want a power of two, 8 columns or more",
    ),
    ((Pack("C", "D", (0, 1)),), "Pack: 'C' is not read; inputs: A, B"),
    ((Pack("A", "B", (0, 1)),), "Pack: the name 'B' is taken"),
    ((Pack("A", "D", (0, 0)),), "Pack: (0, 0) is no order of the 2 dimensions"),
    ((Pack("A", "D", (0, 1), 5),), "Pack: rows of whole 5 bytes hold no float16"),
    ((Tensorize(),), "Tensorize: a product takes three tile groups, there are 0"),
    (
        (SplitReduction("i", "a", "b", 2, "atomic", 16),),
        "SplitReduction: 'i' is not reduced; ('k',) are",
    ),
    (
        (*TILED, Tensorize(), ReduceLate()),
        "ReduceLate: the product is computed on the tensor cores, which hold sums alone",
    ),
    (
        (*TILED, ReduceLate(), Tensorize()),
        "Tensorize: its reduction is late, which the tensor cores do not do",
    ),
    ((Peel("i", "b", "r", 100),), "Peel: 'i' has extent 100: nothing is left from 100 on"),
    ((Peel("i", "b", "r", 0),), "Peel: at is 0; want an integer of at least 1"),
    ((Peel("i", "b", "b", 64),), "Peel: the name 'b' is given twice"),
    (
        (Peel("k", "b", "r", 64),),
        "Peel: 'k' is reduced: both parts would be needed for each element",
    ),
    (
        (Split("i", "i0", "i1", 4), Peel("i", "b", "r", 64)),
        "Peel: 'i' has already been split or fused",
    ),
    (
        (SplitReduction("k", "kp", "kr", 4, "workspace", 32), Peel("i", "b", "r", 64)),
        "Peel: the reduction is shared by 4 programs already",
    ),
    (
        (Peel("i", "b", "r", 64), SplitReduction("k", "kp", "kr", 4, "workspace", 32)),
        "SplitReduction: 'i' is peeled: the nest holds a part of the output",
    ),
    ((Unroll("k"),), "Unroll: 'k' has 256 steps; 64 is the most"),
    ((Pipeline(17),), "Pipeline: 17 stages; 16 is the most"),
    ((Warps(3),), "Warps: 3 warps; want a power of two up to 32"),
    ((Warps(4, nest=1),), "Warps: there is no nest 1, only 1"),
]


@pytest.mark.parametrize(("steps", "sentence"), REFUSALS, ids=[text[:50] for _, text in REFUSALS])
def test_refusals_explain_themselves(steps: tuple[Step, ...], sentence: str) -> None:
    with pytest.raises(IllegalStep) as refusal:
        after(*steps)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ((), "kernel: spatial axis 'i' is neither on the grid nor in a block"),
        ((Bind(("i", "j")),), "kernel: nothing is tiled"),
        (
            (Split("i", "i0", "i1", 64), Split("j", "j0", "j1", 64), Tile((("i1",), ("j1",)))),
            "kernel: spatial axis 'i0' is neither on the grid nor in a block",
        ),
    ],
)
def test_an_unfinished_nest_is_refused(steps: tuple[Step, ...], sentence: str) -> None:
    with pytest.raises(IllegalStep) as refusal:
        replay(matmul(), Schedule(steps))
    assert str(refusal.value) == sentence


def test_descriptors_want_rows_of_16_bytes() -> None:
    workload = matmul(n=700)
    with pytest.raises(IllegalStep, match=r"a stride of 'B' is 1400 bytes, not whole 16s"):
        after(*TILED, CacheRead("B", "descriptor"), workload=workload)
    after(*TILED, CacheRead("A", "descriptor"), workload=workload)


def test_atomic_sums_are_not_stored_by_descriptor() -> None:
    with pytest.raises(IllegalStep, match="added atomically, which takes pointers"):
        after(
            SplitReduction("k", "kp", "kr", 4, "atomic", 32),
            Split("i", "i0", "i1", 64),
            Split("j", "j0", "j1", 64),
            Split("kr", "k0", "k1", 32),
            Tile((("i1",), ("j1",), ("k1",))),
            CacheWrite("descriptor"),
        )


def test_what_is_reduced_again_must_lie_in_the_block() -> None:
    workload = matmul(epilogue=("softmax",))
    with pytest.raises(IllegalStep, match="'row_max' reduces over 'j', of which a block holds"):
        replay(workload, Schedule(DONE))


def test_swapped_operands_leave_no_columns_to_cut() -> None:
    with pytest.raises(IllegalStep, match="the columns are the rows of the accumulator"):
        after(*TILED, Tensorize(swap=True), CacheWrite("pointer", 2))


def test_blocks_past_what_a_compiler_holds_are_refused() -> None:
    steps = (
        Split("i", "i0", "i1", 2048),
        Split("j", "j0", "j1", 1024),
        Split("k", "k0", "k1", 32),
        Tile((("i1",), ("j1",), ("k1",))),
        Bind(("i0", "j0")),
    )
    with pytest.raises(IllegalStep, match="the block of acc holds 2097152 elements"):
        replay(matmul(4096, 4096, 64), Schedule(steps))


def _value(index: Index, point: dict[str, int]) -> int:
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Var):
            total += coefficient * point[atom.name]
        else:
            inner = _value(atom.value, point)
            quotient = type(atom).__name__ == "Quotient"
            total += coefficient * (inner // atom.divisor if quotient else inner % atom.divisor)
    return total
