"""The inline form: what it means, and the column of what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.spec import SpecError, load
from autosched.spec.schema import OPS
from autosched.te.layout import stored
from autosched.te.operators import batch_matmul, matmul
from search_space.workload import Workload


@pytest.mark.parametrize(
    ("argument", "workload"),
    [
        ("matmul:m=4,n=6,k=8,dtype=float16", matmul(4, 6, 8, dtype="float16")),
        (
            "batch_matmul:batch=3,m=4,n=6,k=8,dtype=float32,precision=tf32,trans_a=true",
            batch_matmul(3, 4, 6, 8, dtype="float32", precision="tf32", trans_a=True),
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=bfloat16,trans_b=true,out_dtype=float32,epilogue=bias+silu",
            matmul(
                4,
                6,
                8,
                dtype="bfloat16",
                trans_b=True,
                out_dtype="float32",
                epilogue=["bias", "silu"],
            ),
        ),
        (
            "matmul:m=4, n=6, k=8, dtype=float16, epilogue=scale:1e+2 + relu",
            matmul(4, 6, 8, dtype="float16", epilogue=["scale:1e+2", "relu"]),
        ),
        ("matmul:m=4,n=6,k=8,dtype=float16,epilogue=", matmul(4, 6, 8, dtype="float16")),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,epilogue=bias,constant=b+bias",
            matmul(4, 6, 8, dtype="float16", epilogue=["bias"], constant=["b", "bias"]),
        ),
        (
            "batch_matmul:batch=3,m=4,n=6,k=8,dtype=float16,strides.b=0+6+1",
            stored(batch_matmul(3, 4, 6, 8, dtype="float16"), "B", strides=(0, 6, 1)),
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.a=16+1,alignment_bytes.a=8,strides.c=1+4",
            stored(
                stored(matmul(4, 6, 8, dtype="float16"), "A", strides=(16, 1), alignment_bytes=8),
                "C",
                strides=(1, 4),
            ),
        ),
    ],
)
def test_meaning(argument: str, workload: Workload) -> None:
    (task,) = load(argument)
    assert task.workload == workload
    assert (task.id, task.where, task.options) == (argument, "argument:1", {})
    assert task.op is task.spec


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("matmul:m=0,n=6,k=8,dtype=float16", "argument:10: workload.m: 0 is below 1"),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.d=6+1",
            "argument:44: workload.strides.d: 'd' is no tensor here; there are a, b, c",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.b=6",
            "argument:44: workload.strides.b: 'B' has 2 dimension(s) but 1 stride(s)",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.c=0+1",
            "argument:44: workload.strides.c: 'C' is written, but its strides [0, 1] make indices "
            "share an element",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.b=6+x",
            "argument:44: workload.strides.b.1: an integer is expected, not 'x'",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides.b=6+1,strides.b=6+1",
            "argument:48: workload.strides.b: stands twice",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides=6",
            "argument:42: workload.strides: a mapping is expected, not a list",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,strides=6,strides.b=6+1",
            "argument:44: workload.strides.b: stands twice",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,alignment_bytes.a=12",
            "argument:52: workload.alignment_bytes.a: 'A' is aligned to 12 bytes; for float16 it "
            "is a power of two from 2 to 256",
        ),
        ("matmul:m=-4,n=6,k=8,dtype=float16", "argument:10: workload.m: -4 is below 1"),
        (
            "matmul:m=4,n=6.0,k=8,dtype=float16",
            "argument:14: workload.n: an integer is expected, not '6.0'",
        ),
        (
            "matmul:m=4,n=true,k=8,dtype=float16",
            "argument:14: workload.n: an integer is expected, not true",
        ),
        (
            "matmul:m=4,n=6,k=99999999999999,dtype=float16",
            "argument:18: workload.k: 99999999999999 is past the limit of 1099511627776",
        ),
        (
            "matmul:m=4,n=6,k=8,dtpye=float16",
            "argument:20: workload.dtpye: unknown, did you mean dtype",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float61",
            "argument:26: workload.dtype: 'float61' is unknown, did you mean float16",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,trans_b=yes",
            "argument:42: workload.trans_b: true or false is expected, not 'yes'",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,precision=tf32",
            "argument:44: workload.precision: precision tf32 is about products of float32 inputs, "
            "and there are none",
        ),
        (
            "matmul:m=4,n=6,k=8,dtype=float16,epilogue=bias+bas",
            "argument:43: workload.epilogue.1: 'bas' is no epilogue; known: bias, residual, "
            "scale_a, scale_b, row_scale, column_scale, relu, "
            "gelu, gelu_tanh, silu, scale:FACTOR, softmax",
        ),
        ("matmul:m=4,n=6,dtype=float16", "argument:1: workload.k: is missing"),
        ("matmul:m=4,m=5", "argument:12: workload.m: stands twice"),
        ("matmul:m=4,n", "argument:12: key=value is expected, not 'n'"),
        ("matmul:", "argument:8: key=value is expected, not ''"),
        ("matmul:=4", "argument:8: key=value is expected, not '=4'"),
        ("matmull:m=4", "argument:1: workload.op: 'matmull' is unknown, did you mean matmul"),
        (
            "einsum:n=1",
            f"argument:1: workload.op: 'einsum' is unknown; known: {', '.join(OPS)}",
        ),
        ("matmul:op=batch_matmul", "argument:8: workload.op: stands twice"),
        ("", "a spec is a YAML file or op:key=value,..., not an empty text"),
        (
            "matmul",
            "matmul: no such file; a workload in words is op:key=value,..., such as "
            "matmul:m=512,n=512,k=512,dtype=float16",
        ),
    ],
)
def test_errors_say_where(argument: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(argument)
    assert str(caught.value) == sentence


@given(st.text(max_size=40).map(lambda rest: "matmul:" + rest))
def test_any_argument_is_a_task_or_a_spec_error(argument: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(argument)
    assert str(caught.value)
