"""Matmul and batch matmul: layouts, dtypes, epilogues, and what is refused."""

from itertools import product

import pytest

from autosched import te
from autosched.te.operators import batch_matmul, matmul
from search_space.expr import Affine, Read, derived

LAYOUTS = list(product((False, True), repeat=2))


def test_a_matmul_is_a_sum_of_products_and_a_store() -> None:
    work = matmul(4, 6, 8, dtype="float16")
    assert work.canonical == (
        "axes i0=4:spatial i1=6:spatial i2=8:reduction\n"
        "input T0 float16 shape=[4,8] strides=[8,1] align=16\n"
        "input T1 float16 shape=[8,6] strides=[6,1] align=16\n"
        "intermediate T2 float32 shape=[4,6] strides=[6,1] align=16\n"
        "output T3 float16 shape=[4,6] strides=[6,1] align=16\n"
        "T2[i0,i1] sum= mul(T0[i0,i2],T1[i2,i1])\n"
        "T3[i0,i1] = T2[i0,i1]\n"
        "precision ieee\n"
    )
    assert list(work.tensors) == ["A", "B", "acc", "C"]
    assert list(work.extents) == ["i", "j", "k"]
    assert work.operations == 2 * 4 * 6 * 8


@pytest.mark.parametrize(("trans_a", "trans_b"), LAYOUTS)
def test_layouts_are_those_of_storage(trans_a: bool, trans_b: bool) -> None:
    work = matmul(4, 6, 8, dtype="float16", trans_a=trans_a, trans_b=trans_b)
    assert work.tensors["A"].shape == ((8, 4) if trans_a else (4, 8))
    assert work.tensors["B"].shape == ((6, 8) if trans_b else (8, 6))
    batched = batch_matmul(3, 4, 6, 8, dtype="float16", trans_a=trans_a, trans_b=trans_b)
    assert batched.tensors["A"].shape == (3, *work.tensors["A"].shape)
    assert batched.tensors["B"].shape == (3, *work.tensors["B"].shape)
    assert batched.output.shape == (3, 4, 6)
    assert list(batched.extents) == ["b", "i", "j", "k"]


@pytest.mark.parametrize(
    ("dtype", "accumulator", "stored"),
    [
        ("float16", "float32", "float16"),
        ("bfloat16", "float32", "bfloat16"),
        ("float32", "float32", "float32"),
        ("float8_e4m3", "float32", "bfloat16"),
        ("int8", "int32", "int32"),
    ],
)
def test_dtypes(dtype: str, accumulator: str, stored: str) -> None:
    work = matmul(4, 6, 8, dtype=dtype)
    assert work.tensors["acc"].dtype == accumulator
    assert work.output.dtype == stored
    assert matmul(4, 6, 8, dtype=dtype, out_dtype="float32").output.dtype == "float32"


def test_epilogues_apply_in_order_and_their_inputs_follow() -> None:
    work = matmul(4, 6, 8, dtype="float16", epilogue=["residual", "relu", "bias", "scale:0.5"])
    assert [(t.name, t.shape) for t in work.inputs[2:]] == [("residual", (4, 6)), ("bias", (6,))]
    assert work.canonical.splitlines()[-2] == (
        "T5[i0,i1] = mul(add(max(add(T4[i0,i1],T2[i0,i1]),0.0),T3[i1]),0.5)"
    )


def test_a_bias_is_shared_by_the_batch_and_a_residual_is_not() -> None:
    work = batch_matmul(3, 4, 6, 8, dtype="float16", epilogue=["bias", "residual"])
    assert [t.shape for t in work.inputs[2:]] == [(6,), (3, 4, 6)]


def test_inputs_of_epilogues_have_the_dtype_of_the_output() -> None:
    work = matmul(4, 6, 8, dtype="float16", out_dtype="float32", epilogue=["bias"])
    assert work.tensors["bias"].dtype == "float32"


def test_the_same_epilogue_twice_has_two_inputs() -> None:
    work = matmul(4, 6, 8, dtype="float16", epilogue=["bias", "relu", "bias"])
    assert [t.name for t in work.inputs] == ["A", "B", "bias", "bias_1"]


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_elementwise_epilogues_read_the_accumulator_alone(name: str) -> None:
    work = matmul(4, 6, 8, dtype="bfloat16", epilogue=[name])
    acc = Read("acc", (Affine.axis("i"), Affine.axis("j")))
    assert derived(work.stages[1].value) == (name, acc)
    assert len(work.inputs) == 2


def test_precision_is_about_float32() -> None:
    assert matmul(4, 6, 8, dtype="float32", precision="tf32").precision == "tf32"


@pytest.mark.parametrize(
    ("fields", "path", "fact"),
    [
        ({"m": 0}, ("m",), "m has extent 0, the least is 1"),
        ({"n": -3}, ("n",), "n has extent -3"),
        ({"k": 1.0}, ("k",), "the extent of k is an integer, not '1.0'"),
        ({"m": True}, ("m",), "the extent of m is an integer, not 'True'"),
        ({"m": 1 << 30, "n": 1 << 30}, (), "'C' has .* elements, the limit"),
        ({"dtype": "float61"}, ("dtype",), "'float61' is no dtype of operands"),
        ({"dtype": "float64"}, ("dtype",), "'float64' is no dtype of operands"),
        ({"out_dtype": "half"}, ("out_dtype",), "'half' is unknown"),
        ({"out_dtype": "int8"}, ("out_dtype",), "stored as int8"),
        ({"precision": "tf32"}, ("precision",), "tf32 is about products of float32"),
        ({"epilogue": ["relu", "bas"]}, ("epilogue", 1), "'bas' is no epilogue; known: bias"),
        ({"epilogue": ["scale"]}, ("epilogue", 0), "'scale' is no epilogue"),
        ({"epilogue": ["scale:inf"]}, ("epilogue", 0), "'scale:inf' is no epilogue"),
        ({"epilogue": ["scale:1e999"]}, ("epilogue", 0), "'scale:1e999' is no epilogue"),
        ({"epilogue": ["relu"] * 9}, ("epilogue",), "9 epilogues are given, the limit is 8"),
        ({"epilogue": ["gelu_tanh"] * 8}, ("epilogue", 4), "at most 10000 nodes"),
        ({"dtype": "int8", "epilogue": ["silu"]}, ("epilogue", 0), "sigmoid of int32"),
        ({"dtype": "int8", "epilogue": ["scale:0.5"]}, ("epilogue", 0), "do not mix"),
    ],
)
def test_refusals_name_the_argument(
    fields: dict[str, object], path: tuple[str | int, ...], fact: str
) -> None:
    given = {"m": 4, "n": 6, "k": 8, "dtype": "float16", **fields}
    with pytest.raises(te.IllegalExpression, match=fact) as caught:
        matmul(**given)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(te.IllegalExpression, match="batch has extent 0"):
        batch_matmul(0, 4, 6, 8, dtype="float16")


def test_labels_say_what_the_key_does() -> None:
    work = matmul(4, 6, 8, dtype="float32", trans_b=True, precision="tf32", epilogue=["silu"])
    assert work.label == "matmul 4x6x8 float32 nt tf32 silu"
    assert batch_matmul(2, 4, 6, 8, dtype="int8").label == "batch_matmul 2x4x6x8 int8 nn"
