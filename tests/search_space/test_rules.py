"""Sketch rules: what they generate, by structure alone."""

import re

import pytest

from autosched.te import operators, text
from search_space.apply import replay
from search_space.describe import describe
from search_space.expr import Affine, Call, Read
from search_space.rules import NoSketch, sketches
from search_space.rules.role import contraction
from search_space.sketch import fill
from search_space.target import load
from search_space.workload import Axis, Stage, Tensor, Workload

H200, A100, MI300X = load("h200"), load("a100"), load("mi300x")


def names(workload: Workload, target=H200) -> set[str]:
    return {sketch.name for sketch in sketches(workload, target)}


def product(sizes: dict[str, int], output: str, a: str, b: str) -> Workload:
    """``output += a * b`` over single-letter axes."""

    def tensor(name: str, axes: str, dtype: str = "float16") -> Tensor:
        return Tensor(name, tuple(sizes[x] for x in axes), dtype)

    def read(name: str, axes: str) -> Read:
        return Read(name, tuple(map(Affine.axis, axes)))

    kinds = {x: "spatial" if x in output else "reduction" for x in (*output, *a, *b)}
    index = tuple(map(Affine.axis, output))
    return Workload(
        tuple(Axis(x, sizes[x], kind) for x, kind in kinds.items()),
        (tensor("A", a), tensor("B", b)),
        (tensor("acc", output, "float32"),),
        tensor("C", output),
        (
            Stage("acc", index, Call("mul", (read("A", a), read("B", b))), "sum"),
            Stage("C", index, read("acc", output)),
        ),
    )


def test_a_large_aligned_matmul_has_every_way_to_move_data() -> None:
    assert names(operators.matmul(4096, 4096, 4096, dtype="float16")) == {
        "contraction.pointer",
        "contraction.pointer.persistent",
        "contraction.descriptor",
        "contraction.descriptor.persistent",
        "contraction.descriptor.direct",
        "contraction.descriptor.direct.persistent",
    }


@pytest.mark.parametrize(
    ("m", "n", "ends"),
    [
        (5000, 5000, {("m", 8), ("n", 8)}),
        (5000, 5120, {("m", 8), ("n", 256)}),
        (4096, 4096, set()),
    ],
)
def test_an_end_that_costs_a_wave_is_peeled(m: int, n: int, ends: set[tuple[str, int]]) -> None:
    found = sketches(operators.matmul(m, n, 1024, dtype="bfloat16", epilogue=("bias",)), H200)
    peeled = [sketch for sketch in found if "peeled" in sketch.name]
    assert {(s.structure.peeled, s.structure.rest) for s in peeled} == ends
    for sketch in peeled:
        schedule = fill(sketch, {c.name: min(c.domain) for c in sketch.choices})
        body, rest = replay(sketch.workload, schedule)
        tiles = [body.extents[f"{axis}0"] for axis in "ij"]
        assert not {"i_body", "j_body"} & set(body.overhangs), tiles
        stage = rest.group_extent(2) * (rest.group_extent(0) + rest.group_extent(1)) * 2
        assert rest.stages * stage <= H200.shared_memory_per_block_bytes // 2
        if sketch.structure.rest == 8:
            assert rest.extents["i0"] * rest.extents["j0"] >= H200.multiprocessors


def test_a_last_wave_of_few_blocks_is_peeled() -> None:
    """8 x 86 blocks of 128 x 256 are 5.2 waves of 132; 8 x 82 are 5."""
    workload = operators.matmul(1024, 22016, 4096, dtype="float16")
    peeled = [sketch for sketch in sketches(workload, H200) if "peeled" in sketch.name]
    assert {(s.structure.peeled, s.structure.n, s.structure.rest) for s in peeled} == {
        ("n", 82 * 256, 4 * 256)
    }


def test_what_a_peeled_schedule_leaves_is_described_as_its_sketch_does() -> None:
    workload = operators.matmul(5000, 5120, 1024, dtype="bfloat16")
    sketch = next(s for s in sketches(workload, H200) if "peeled" in s.name)
    choices = {c.name: min(c.domain) for c in sketch.choices}
    description = describe(workload, replay(workload, fill(sketch, choices)))
    assert description is not None
    assert description.structure == sketch.structure


def test_rows_of_700_are_read_by_pointers_or_packed_first() -> None:
    found = names(operators.matmul(5124, 700, 2048, dtype="float16"))
    assert "contraction.pointer" in found
    assert "contraction.descriptor.direct.packed" in found
    assert all("packed" in name for name in found if "descriptor" in name)


@pytest.mark.parametrize("name", ["float8_e4m3", "int8"])
def test_narrow_operands_are_packed_with_k_contiguous(name: str) -> None:
    workload = operators.matmul(256, 256, 256, dtype=name)
    packed = [sketch for sketch in sketches(workload, H200) if sketch.structure.packs]
    assert packed
    assert all(sketch.structure.b_k_major for sketch in packed)


@pytest.mark.parametrize(
    ("trans_a", "trans_b", "swap"), [(False, False, True), (True, True, False)]
)
def test_a_tf32_operand_that_lies_across_k_may_pass_through_registers(
    trans_a: bool, trans_b: bool, swap: bool
) -> None:
    workload = operators.matmul(
        256, 512, 256, dtype="float32", precision="tf32", trans_a=trans_a, trans_b=trans_b
    )
    found = [sketch for sketch in sketches(workload, H200) if sketch.structure.registers]
    assert len(found) == 2
    assert {(s.structure.swap, s.structure.packs) for s in found} == {(swap, 0)}


@pytest.mark.parametrize(
    "workload",
    [
        operators.matmul(256, 512, 256, dtype="float32", precision="tf32", trans_b=True),
        operators.matmul(256, 510, 256, dtype="float32", precision="tf32"),
        operators.matmul(256, 512, 256, dtype="float32", precision="ieee"),
        operators.matmul(256, 512, 256, dtype="float16"),
        operators.matmul(256, 512, 256, dtype="int8"),
    ],
    ids=["along k", "narrow rows", "ieee", "float16", "int8"],
)
def test_no_other_operand_passes_through_registers(workload: Workload) -> None:
    assert not any(sketch.structure.registers for sketch in sketches(workload, H200))


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        # Whether a, b are K-major as the dot's kernel reads them, and whether it is transposed.
        ({}, {(True, False, False), (False, False, False)}),
        ({"trans_a": True}, {(False, False, False)}),
        (
            {"trans_b": True},
            {(True, True, False), (True, False, False), (False, False, False)},
        ),
        (
            {"trans_a": True, "trans_b": True},
            {(False, True, False), (False, True, True), (False, False, False)},
        ),
    ],
)
def test_plain_dots_can_read_their_second_operand_along_its_rows(stored, read) -> None:
    found = sketches(operators.matmul(256, 256, 256, dtype="float32", **stored), H200)
    structures = [sketch.structure for sketch in found]
    assert {(s.a_k_major, s.b_k_major, s.swap) for s in structures} == read
    assert len({sketch.name for sketch in found}) == len(found)


def test_plain_dots_have_the_smaller_operand_copied() -> None:
    found = sketches(operators.matmul(128, 512, 64, dtype="float32", trans_b=True), H200)
    copied = {s.structure.packed_bytes: s.structure.swap for s in found if "both" not in s.name}
    assert copied == {0: False, 2 * 4 * 128 * 64: True}


def test_only_dots_without_tensor_cores_have_operands_turned() -> None:
    tf32 = operators.matmul(256, 256, 256, dtype="float32", trans_b=True, precision="tf32")
    assert not any(sketch.structure.packs for sketch in sketches(tf32, H200))
    ieee = operators.matmul(256, 256, 256, dtype="float32", trans_b=True)
    assert not any(sketch.structure.packs for sketch in sketches(ieee, MI300X))


def test_long_reductions_over_few_blocks_are_shared() -> None:
    found = names(operators.matmul(32, 32, 32768, dtype="bfloat16"))
    assert {
        "contraction.pointer.split.workspace",
        "contraction.descriptor.direct.split.atomic",
    } <= found


def test_skinny_products_may_swap_operands() -> None:
    assert "contraction.descriptor.direct.swapped" in names(
        operators.matmul(16, 8192, 8192, dtype="bfloat16", trans_b=True)
    )


def test_products_with_few_vectors_may_go_by_rows() -> None:
    def by_rows(m: int, n: int, *, trans_b: bool = True) -> set[str]:
        found = names(operators.matmul(m, n, 4096, dtype="float16", trans_b=trans_b))
        return {name for name in found if name.startswith("rows")}

    assert {"rows", "rows.split.counter"} <= by_rows(1, 512)
    assert by_rows(512, 3)
    assert not by_rows(16, 512)
    assert not by_rows(1, 512, trans_b=False)


@pytest.mark.parametrize("target", [A100, MI300X])
def test_targets_without_the_copy_engine_have_no_descriptors(target) -> None:
    workload = operators.matmul(512, 512, 512, dtype="float16")
    assert not any("descriptor" in name for name in names(workload, target))


def test_roles_follow_from_where_axes_occur() -> None:
    roles = contraction(operators.batch_matmul(7, 8, 9, 10, dtype="float16"))
    assert not isinstance(roles, str)
    letters = {
        role: [axis.name for axis in getattr(roles, role)] for role in ("batch", "m", "n", "k")
    }
    assert letters == {"batch": ["b"], "m": ["i"], "n": ["j"], "k": ["k"]}


def test_b_is_the_operand_that_holds_the_last_dimension() -> None:
    workload = product({"i": 8, "j": 16, "k": 32}, "ij", "kj", "ik")
    roles = contraction(workload)
    assert not isinstance(roles, str)
    assert (roles.a.tensor, roles.b.tensor) == ("B", "A")


def test_rows_that_are_reduced_again_are_held_whole() -> None:
    workload = operators.matmul(64, 100, 64, dtype="float16", epilogue=("softmax",))
    for sketch in sketches(workload, H200):
        domains = {choice.name: choice.domain for choice in sketch.choices}
        assert domains["tile_n"] == (128,)
        assert sketch.structure.split == "none"


def test_rows_too_long_for_a_block_are_refused() -> None:
    workload = operators.matmul(64, 1000, 64, dtype="float16", epilogue=("softmax",))
    with pytest.raises(NoSketch, match="reduced again over axis 'j', more than a block holds"):
        sketches(workload, H200)


def test_axes_beyond_the_pattern_go_to_the_grid_and_the_loops() -> None:
    workload = product({"p": 3, "i": 64, "q": 5, "j": 64, "r": 2, "k": 64}, "piqj", "pirk", "rkqj")
    for sketch in sketches(workload, H200):
        if sketch.name.startswith(("gather", "flat")):
            continue
        nests = replay(workload, fill(sketch, {c.name: c.domain[0] for c in sketch.choices}))
        assert {"p", "q"} <= set(nests[0].grid)
        assert sketch.structure.batch == 15
        assert sketch.structure.k == 128


def test_axes_may_bear_any_name() -> None:
    workload = text.parse(
        "C[i, i0] += A[i, i1] * B[i1, i0]",
        sizes={"i": 64, "i0": 64, "i1": 64},
        inputs={
            "A": text.Stored((64, 64), "float16"),
            "B": text.Stored((64, 64), "float16"),
        },
    )
    for sketch in sketches(workload, H200):
        replay(workload, fill(sketch, {c.name: c.domain[0] for c in sketch.choices}))


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        (("ij", "i", "j"), "as product or product through windows: nothing is summed"),
        (
            ("ij", "iik", "kj"),
            "as product or product through windows or reduction: an axis occurs twice in the "
            "index of 'A'.* With the positions of 'A' along 'i' declared as one dimension, its "
            "stride the sum of theirs, it is covered",
        ),
    ],
)
def test_what_no_rule_covers_is_refused_with_the_reason(axes, reason: str) -> None:
    workload = product({"i": 64, "j": 64, "k": 64, "r": 4}, *axes)
    with pytest.raises(NoSketch, match=reason):
        sketches(workload, H200)


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        ("y[i] += A[i,k] * x[k]", {"reduction"}),
        ("D[i,j] += (A[i,k] - B[j,k]) * (A[i,k] - B[j,k])", {"reduction"}),
        ("S[] max= A[i,k]", {"reduction"}),
        ("Y[i,k] = relu(A[i,k]) + x[k]", {"elementwise"}),
        ("Y[i,k] += A[i,k+r-1] * v[r]", {"direct"}),
        ("Y[i,k] max= A[i,k*2+r-1]", {"direct"}),
        ("Y[i,o] += A[i,o*2+r] * W[o,r]", {"direct"}),
    ],
)
def test_what_holds_no_large_product_is_computed_without_a_dot(expression: str, kinds) -> None:
    sizes = {"i": 48, "j": 40, "k": 64, "r": 3, "o": 8}
    inputs = {"A": (48, 64), "B": (40, 64), "x": (64,), "v": (3,), "W": (8, 3)}
    used = {x: e for x, e in sizes.items() if x in re.findall(r"[a-z]\w*", expression)}
    workload = text.parse(
        expression,
        used,
        {x: text.Stored(shape, "float16") for x, shape in inputs.items() if f"{x}[" in expression},
    )
    found = sketches(workload, H200)
    assert {sketch.name.split(".")[0] for sketch in found} == kinds
    assert not any(sketch.structure.dot for sketch in found)


def test_two_reductions_are_refused_and_one_each_is_named_as_the_way() -> None:
    workload = text.parse(
        "M[i] max= A[i,k]; S[] += M[i]",
        {"i": 8, "k": 16},
        {"A": text.Stored((8, 16), "float32")},
    )
    with pytest.raises(NoSketch) as refusal:
        sketches(workload, H200)
    assert str(refusal.value).endswith(
        "as window tap by tap or reduction: it reduces twice, into 'M' and then into 'acc'; one "
        "reduction a kernel is what these rules know; as row held whole: nothing is reduced and "
        "read again; as elementwise expression: its first stage reduces, into 'M'. Each reduction "
        "stated as a computation of its own is covered."
    )


def test_rows_longer_than_a_block_are_not_held_whole() -> None:
    def softmax(length: int) -> Workload:
        return text.parse(
            "M[i] max= A[i,k]; E[i] += exp(A[i,k] - M[i]); Y[i,k] = exp(A[i,k] - M[i]) / E[i]",
            {"i": 8, "k": length},
            {"A": text.Stored((8, length), "float16")},
        )

    assert names(softmax(12672)) == {"whole"}
    with pytest.raises(NoSketch, match="rows of 40000 elements are longer than the 32768 that"):
        sketches(softmax(40000), H200)


def test_long_products_through_windows_are_not_unrolled() -> None:
    def kinds(channels: int) -> set[str]:
        workload = text.parse(
            "Y[y,o] += X[y+r,c] * W[o,r,c]",
            {"y": 30, "o": 64, "r": 3, "c": channels},
            {
                "X": text.Stored((32, channels), "float16"),
                "W": text.Stored((64, 3, channels), "float16"),
            },
        )
        return {name.split(".")[0] for name in names(workload)}

    assert "gather" in kinds(128) & kinds(8)
    assert kinds(8) - kinds(128) == {"direct"}


def test_the_space_is_large_and_its_size_is_the_product_of_its_domains() -> None:
    workload = operators.matmul(4096, 4096, 4096, dtype="float16")
    total = sum(sketch.size for sketch in sketches(workload, H200))
    assert total > 100_000
