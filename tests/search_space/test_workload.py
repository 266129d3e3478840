"""Workloads: canonical text, key, counts."""

from dataclasses import replace

from search_space.expr import Affine, Call, Read
from search_space.workload import Axis, Stage, Tensor, Workload, contiguous_strides


def forms(*names: str) -> tuple[Affine, ...]:
    return tuple(map(Affine.axis, names))


def matmul(m: int = 4, n: int = 6, k: int = 8) -> Workload:
    product = Call("mul", (Read("A", forms("i", "k")), Read("B", forms("k", "j"))))
    return Workload(
        axes=(Axis("i", m, "spatial"), Axis("j", n, "spatial"), Axis("k", k, "reduction")),
        inputs=(Tensor("A", (m, k), "float16"), Tensor("B", (k, n), "float16")),
        intermediates=(Tensor("acc", (m, n), "float32"),),
        output=Tensor("C", (m, n), "float16"),
        stages=(
            Stage("acc", forms("i", "j"), product, "sum"),
            Stage("C", forms("i", "j"), Read("acc", forms("i", "j"))),
        ),
        label="a name",
    )


def test_canonical_text_names_nothing_by_the_users_names() -> None:
    assert matmul().canonical == (
        "axes i0=4:spatial i1=6:spatial i2=8:reduction\n"
        "input T0 float16 shape=[4,8] strides=[8,1] align=16\n"
        "input T1 float16 shape=[8,6] strides=[6,1] align=16\n"
        "intermediate T2 float32 shape=[4,6] strides=[6,1] align=16\n"
        "output T3 float16 shape=[4,6] strides=[6,1] align=16\n"
        "T2[i0,i1] sum= mul(T0[i0,i2],T1[i2,i1])\n"
        "T3[i0,i1] = T2[i0,i1]\n"
        "precision ieee\n"
    )


def test_key_is_sixteen_hex_digits_and_ignores_the_label() -> None:
    key = matmul().key
    assert len(key) == 16
    assert int(key, 16) >= 0
    assert replace(matmul(), label="another").key == key
    assert replace(matmul(), label="another") == matmul()
    assert matmul(k=9).key != key


def test_counts_of_a_matmul() -> None:
    assert matmul().operations == 2 * 4 * 6 * 8
    assert matmul().compulsory_bytes == 2 * (4 * 8 + 8 * 6 + 4 * 6)


def test_a_repeated_element_counts_once() -> None:
    assert Tensor("bias", (4, 6), "float32", (0, 1)).size_bytes == 24
    assert Tensor("bias", (4, 6), "float32", (0, 1)).elements == 24


def test_strides_are_row_major_by_default() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
    assert Tensor("A", (2, 3, 4), "int8").strides == (12, 4, 1)
