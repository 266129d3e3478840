"""From computed tensors to workloads: what is inlined, what is kept, in which order."""

from collections.abc import Callable

import pytest

from autosched import te
from search_space.workload import Axis

A = te.placeholder((4, 8), "A", "float16")
B = te.placeholder((8, 6), "B", "float16")
BIAS = te.placeholder((6,), "bias", "float16")
K = te.reduce_axis(8, "k")


def stages(workload: object) -> str:
    lines = workload.canonical.splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith("T"))


def product(name: str = "acc"):
    return te.compute((4, 6), lambda i, j: te.sum(A[i, K] * B[K, j], axis=K), name)


def test_a_reduction_that_is_the_output_gets_an_accumulator() -> None:
    work = te.workload(product("C"), dtype="float16")
    assert [t.name for t in work.inputs] == ["A", "B"]
    assert [(t.name, t.dtype) for t in work.intermediates] == [("acc", "float32")]
    assert (work.output.name, work.output.dtype) == ("C", "float16")
    assert [stage.reducer for stage in work.stages] == ["sum", None]


def test_elementwise_tensors_are_inlined_on_both_sides_of_a_reduction() -> None:
    doubled = te.compute((4, 8), lambda p, q: A[p, q] * 2, "doubled")
    acc = te.compute((4, 6), lambda i, j: te.sum(doubled[i, K] * B[K, j], axis=K), "acc")
    shifted = te.compute((4, 6), lambda x, y: acc[x, y] + BIAS[y], "shifted")
    work = te.workload(te.compute((4, 6), lambda i, j: te.relu(shifted[i, j]), "C"))
    assert stages(work) == (
        "T3[i0,i1] sum= mul(mul(T0[i0,i2],2.0),T1[i2,i1])\n"
        "T4[i0,i1] = max(add(T3[i0,i1],T2[i1]),0.0)\n"
    )
    assert work.output.dtype == "float32"


def test_inlining_composes_positions() -> None:
    every_other = te.compute((4, 4), lambda i, j: A[i, 2 * j], "every_other")
    work = te.workload(te.compute((4, 4), lambda i, j: every_other[i, 3 - j], "C"))
    assert stages(work) == "T1[i0,i1] = T0[i0,-2*i1+6]\n"


def test_an_outermost_cast_is_the_rounding_of_the_store() -> None:
    acc = product()
    cast = te.compute((4, 6), lambda i, j: te.cast(acc[i, j], "bfloat16"), "C")
    assert te.workload(cast).output.dtype == "bfloat16"
    assert te.workload(cast) == te.workload(cast, dtype="bfloat16")
    assert "bfloat16(T2[i0,i1])" in te.workload(cast, dtype="float32").canonical


def test_several_reductions_keep_their_order() -> None:
    r = te.reduce_axis(8, "r")
    top = te.compute((4,), lambda i: te.max(A[i, r], axis=r), "top")
    total = te.compute((4,), lambda i: te.sum(te.exp(A[i, r] - top[i]), axis=r), "total")
    out = te.compute((4, 8), lambda i, j: te.exp(A[i, j] - top[i]) / total[i], "Y")
    work = te.workload(out)
    assert [stage.output for stage in work.stages] == ["top", "total", "Y"]
    assert work.axes == (
        Axis("i", 4, "spatial"),
        Axis("j", 8, "spatial"),
        Axis("r", 8, "reduction"),
    )


def test_two_contractions_chain_over_a_reduced_axis() -> None:
    j = te.reduce_axis(6, "j")
    first = product("S")
    v = te.placeholder((6, 5), "V", "float16")
    work = te.workload(te.compute((4, 5), lambda i, d: te.sum(first[i, j] * v[j, d], axis=j), "O"))
    assert [stage.output for stage in work.stages] == ["S", "acc", "O"]
    assert {axis.name: axis.kind for axis in work.axes} == {
        "i": "spatial",
        "d": "spatial",
        "k": "reduction",
        "j": "reduction",
    }


def test_reduction_axes_are_ordered_by_occurrence_not_by_name() -> None:
    def conv(first: str, second: str) -> str:
        image = te.placeholder((8, 8), "X", "float16")
        weight = te.placeholder((3, 2), "W", "float16")
        r, s = te.reduce_axis(3, first), te.reduce_axis(2, second)
        body = lambda y, x: te.sum(image[y + r - 1, x + s - 1] * weight[r, s], axis=[s, r])  # noqa: E731
        return te.workload(te.compute((8, 8), body, "Y")).key

    assert conv("r", "s") == conv("s", "r") == conv("z", "a")


def test_reduction_axes_of_one_form_are_ordered_by_what_follows() -> None:
    def correlate(first: str, second: str) -> str:
        signal = te.placeholder((20,), "X", "float16")
        weight = te.placeholder((3, 5), "W", "float16")
        r, s = te.reduce_axis(3, first), te.reduce_axis(5, second)
        body = lambda i: te.sum(signal[i + r + s - 1] * weight[r, s], axis=[r, s])  # noqa: E731
        return te.workload(te.compute((12,), body, "Y")).key

    assert correlate("r", "s") == correlate("s", "r")


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        (lambda acc, i, j: acc[i, 0] + acc[j, 0], "'acc' is reduced: it is read at distinct plain"),
        (lambda acc, i, j: acc[i, j] + acc[j, i], "'acc' is reduced and read twice"),
    ],
)
def test_reduced_tensors_are_read_at_plain_axes(body: Callable[..., object], fact: str) -> None:
    square = te.placeholder((4, 4), "Q", "float16")
    r = te.reduce_axis(4, "r")
    acc = te.compute((4, 4), lambda i, j: te.sum(square[i, r] * square[r, j], axis=r), "acc")
    out = te.compute((4, 4), lambda i, j: body(acc, i, j), "C")
    with pytest.raises(te.IllegalExpression, match=fact):
        te.workload(out)


@pytest.mark.parametrize(
    ("how", "fact"),
    [
        ({"precision": "tf32"}, "tf32 is about products of float32 inputs, and there are none"),
        ({"precision": "tf64"}, "precision 'tf64' is unknown; known: ieee, tf32"),
        ({"dtype": "int8"}, "'C' is stored as int8: only integers are, and only as int32"),
        ({"dtype": "int32"}, "'C' is stored as int32"),
        ({"dtype": "half"}, "dtype 'half' is unknown"),
    ],
)
def test_illegal_stores_and_precisions(how: dict[str, str], fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        te.workload(product("C"), **how)  # type: ignore[arg-type]


def test_names_have_one_meaning() -> None:
    with pytest.raises(te.IllegalExpression, match="'acc' names two things"):
        te.workload(te.compute((4, 6), lambda i, acc: product()[i, acc] * 1, "C"))
    other = te.placeholder((4, 6), "B", "float16")
    acc = product()
    with pytest.raises(te.IllegalExpression, match="two tensors are called 'B'"):
        te.workload(te.compute((4, 6), lambda i, j: acc[i, j] + other[i, j], "C"))
    with pytest.raises(te.IllegalExpression, match="axis name 'k' has two meanings"):
        te.workload(te.compute((4, 6), lambda k, j: acc[k, j] * 2, "C"))


def test_a_reduced_axis_must_survive_inlining() -> None:
    spread = te.compute((4, 8), lambda i, j: A[i, 0] * 1, "spread")
    out = te.compute((4,), lambda i: te.sum(spread[i, K], axis=K), "C")
    with pytest.raises(te.IllegalExpression, match="axis 'k' of 'acc' does not occur"):
        te.workload(out)


def test_a_workload_reads_something() -> None:
    with pytest.raises(te.IllegalExpression, match="'C' reads no input"):
        te.workload(te.compute((4,), lambda i: 1.0, "C"))
