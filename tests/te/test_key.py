"""One computation, one key: however it is said; and another key for any other computation."""

from itertools import permutations, product

import pytest

from autosched import te
from autosched.te import text
from autosched.te.form import Stored
from autosched.te.operators import batch_matmul, matmul
from search_space.workload import Workload

M, N, K, BATCH = 4, 6, 8, 3
#: Each epilogue as a text around the value so far, and the input it reads.
TEXTS = {
    "bias": ("{} + bias[j]", "bias"),
    "residual": ("{} + residual[i,j]", "residual"),
    "relu": ("relu({})", None),
    "gelu": ("gelu({})", None),
    "gelu_tanh": ("gelu_tanh({})", None),
    "silu": ("silu({})", None),
    "scale:0.25": ("({}) * 0.25", None),
}
ORDERS = [(), *((name,) for name in TEXTS), *permutations(("bias", "residual", "silu"))]


def as_text(
    dtype: str, trans_a: bool, trans_b: bool, epilogue: tuple[str, ...], batch: bool
) -> Workload:
    b, shape = ("b,", (BATCH,)) if batch else ("", ())
    left = "k,i" if trans_a else "i,k"
    right = "j,k" if trans_b else "k,j"
    inputs = {
        # Out of order: inputs come as they are read.
        "residual": Stored((*shape, M, N), dtype),
        "bias": Stored((N,), dtype),
        "B": Stored((*shape, *((N, K) if trans_b else (K, N))), dtype),
        "A": Stored((*shape, *((K, M) if trans_a else (M, K))), dtype),
    }
    value = f"C[{b}i,j]"
    for name in epilogue:
        value = TEXTS[name][0].replace("residual[", f"residual[{b}").format(value)
    used = {TEXTS[name][1] for name in epilogue} | {"A", "B"}
    return text.parse(
        f"C[{b}i,j] += A[{b}{left}] * B[{b}{right}]",
        {"i": M, "j": N, "k": K} | ({"b": BATCH} if batch else {}),
        {name: how for name, how in inputs.items() if name in used},
        value if epilogue else None,
    )


@pytest.mark.parametrize("epilogue", ORDERS)
@pytest.mark.parametrize(("trans_a", "trans_b"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize("batch", [False, True])
def test_operator_and_text_share_a_key(
    trans_a: bool, trans_b: bool, epilogue: tuple[str, ...], batch: bool
) -> None:
    layout = {"trans_a": trans_a, "trans_b": trans_b}
    for dtype in ("float16", "bfloat16", "float32"):
        if batch:
            named = batch_matmul(BATCH, M, N, K, dtype=dtype, epilogue=epilogue, **layout)
        else:
            named = matmul(M, N, K, dtype=dtype, epilogue=epilogue, **layout)
        said = as_text(dtype, trans_a, trans_b, epilogue, batch)
        assert said.canonical == named.canonical
        assert said.key == named.key


def test_computes_share_the_key_too() -> None:
    a, b = te.placeholder((M, K), "Left", "float16"), te.placeholder((K, N), "Right", "float16")
    r = te.reduce_axis(K, "r")
    out = te.compute((M, N), lambda y, x: te.sum(a[y, r] * b[r, x], axis=r), "Out")
    assert te.workload(out, dtype="float16").key == matmul(M, N, K, dtype="float16").key


def test_changing_any_one_field_changes_the_key() -> None:
    base = {"m": 4, "n": 6, "k": 8, "dtype": "float32", "epilogue": ("bias",)}
    changes = [
        {"m": 5},
        {"n": 7},
        {"k": 9},
        {"dtype": "bfloat16"},
        {"out_dtype": "float16"},
        {"trans_a": True},
        {"trans_b": True},
        {"precision": "tf32"},
        {"epilogue": ()},
        {"epilogue": ("residual",)},
        {"epilogue": ("bias", "relu")},
        {"epilogue": ("bias", "gelu")},
        {"epilogue": ("bias", "gelu_tanh")},
        {"epilogue": ("bias", "scale:0.5")},
        {"epilogue": ("bias", "scale:0.25")},
        {"epilogue": ("scale:0.5", "bias")},
    ]
    works = [matmul(**{**base, **change}) for change in ({}, *changes)]  # type: ignore[arg-type]
    works.append(batch_matmul(1, **base))  # type: ignore[arg-type]
    for tensor in ("A", "B", "C", "bias"):
        shape = works[0].tensors[tensor].shape
        works.append(te.stored(works[0], tensor, strides=[2 * s for s in _strides(shape)]))
        works.append(te.stored(works[0], tensor, alignment_bytes=8))
    keys = [work.key for work in works]
    assert len(set(keys)) == len(keys)


def test_a_square_knows_its_layout() -> None:
    layouts = product((False, True), repeat=2)
    keys = {matmul(8, 8, 8, dtype="float16", trans_a=a, trans_b=b).key for a, b in layouts}
    assert len(keys) == 4


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return te.placeholder(shape, "T", "float32").tensor.strides
