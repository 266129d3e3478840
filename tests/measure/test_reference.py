"""The reference equals hand-written torch on every layout, and on affine indices."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from autosched.te.operators import batch_matmul, matmul
from measure import reference, sample_data
from search_space.expr import Affine, Call, Const, Read
from search_space.workload import Axis, Stage, Tensor, Workload

CPU = torch.device("cpu")


def run(workload: Workload, seed: int = 0) -> tuple[list[torch.Tensor], torch.Tensor]:
    inputs = sample_data.random_inputs(workload, seed, CPU)
    output = reference.evaluate(workload, inputs)[workload.output.name]
    return [x.double() for x in inputs], output


def close(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("trans_a", "trans_b"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_matmul_in_every_layout(trans_a: bool, trans_b: bool, dtype: str) -> None:
    w = matmul(5, 7, 33, dtype=dtype, trans_a=trans_a, trans_b=trans_b)
    (a, b), c = run(w)
    close(c, (a.T if trans_a else a) @ (b.T if trans_b else b))


def test_batch() -> None:
    w = batch_matmul(3, 5, 7, 9, dtype="float16", trans_b=True)
    (a, b), c = run(w)
    close(c, a @ b.mT)


def test_bias_and_gelu() -> None:
    w = matmul(6, 8, 10, dtype="float16", epilogue=("bias", "gelu", "residual", "scale:0.5"))
    (a, b, bias, residual), c = run(w)
    close(c, (torch.nn.functional.gelu(a @ b + bias) + residual) * 0.5)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", torch.relu),
        ("silu", torch.nn.functional.silu),
        ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ],
)
def test_activations(name: str, function: object) -> None:
    (a, b), c = run(matmul(4, 4, 4, dtype="float32", epilogue=(name,)))
    close(c, function(a @ b))  # type: ignore[operator]


def axis(name: str, scale: int = 1) -> Affine:
    return Affine.axis(name).scale(scale)


def conv(stride: int, padding: int) -> Workload:
    """A 2-d convolution, channels last: Y[n,y,x,o] += X[n,s*y+r-p,s*x+q-p,c] * W[o,r,q,c]."""
    size = (8 + 2 * padding - 3) // stride + 1
    n, y, x, o, r, q, c = (axis(name) for name in "nyxorqc")
    shift = Affine.of({}, -padding)
    rows, columns = axis("y", stride) + r + shift, axis("x", stride) + q + shift
    value = Call("mul", (Read("X", (n, rows, columns, c)), Read("W", (o, r, q, c))))
    extents = {"n": 2, "y": size, "x": size, "o": 5, "r": 3, "q": 3, "c": 4}
    axes = [Axis(k, v, "reduction" if k in "rqc" else "spatial") for k, v in extents.items()]
    output = Tensor("Y", (2, size, size, 5), "float32")
    return Workload(
        tuple(axes),
        (Tensor("X", (2, 8, 8, 4), "float32"), Tensor("W", (5, 3, 3, 4), "float32")),
        (),
        output,
        (Stage("Y", (n, y, x, o), value, "sum"),),
    )


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (1, 1), (2, 1), (1, 4), (3, 0)])
def test_convolution_with_padding_and_stride(stride: int, padding: int) -> None:
    (x, w), y = run(conv(stride, padding))
    expected = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=stride, padding=padding
    )
    close(y, expected.permute(0, 2, 3, 1))


def test_transposed_convolution_writes_at_affine_places() -> None:
    n, y, r, o, c = (axis(name) for name in "nyroc")
    value = Call("mul", (Read("X", (n, y, c)), Read("W", (c, r, o))))
    w = Workload(
        (
            Axis("n", 2, "spatial"),
            Axis("y", 6, "spatial"),
            Axis("o", 3, "spatial"),
            Axis("r", 3, "reduction"),
            Axis("c", 4, "reduction"),
        ),
        (Tensor("X", (2, 6, 4), "float32"), Tensor("W", (4, 3, 3), "float32")),
        (),
        Tensor("Y", (2, 11, 3), "float32"),
        (Stage("Y", (n, axis("y", 2) + r + Affine.of({}, -1), o), value, "sum"),),
    )
    (x, kernel), out = run(w)
    expected = torch.nn.functional.conv_transpose1d(
        x.permute(0, 2, 1), kernel.permute(0, 2, 1), stride=2, padding=1
    )
    close(out, expected.permute(0, 2, 1))


def test_max_reads_minus_infinity_out_of_range() -> None:
    y, r = axis("y"), axis("r")
    w = Workload(
        (Axis("y", 6, "spatial"), Axis("r", 3, "reduction")),
        (Tensor("X", (6,), "float32"),),
        (),
        Tensor("Y", (6,), "float32"),
        (Stage("Y", (y,), Read("X", (y + r + Affine.of({}, -1),)), "max"),),
    )
    x = torch.tensor([-3.0, -5.0, -1.0, -9.0, -2.0, -4.0])
    out = reference.evaluate(w, [x])["Y"]
    assert out.tolist() == [-3.0, -1.0, -1.0, -1.0, -2.0, -2.0]


def test_softmax_of_several_stages() -> None:
    i, j = axis("i"), axis("j")
    x, m, s = Read("X", (i, j)), Read("m", (i,)), Read("s", (i,))
    shifted = Call("exp", (Call("sub", (x, m)),))
    w = Workload(
        (Axis("i", 4, "spatial"), Axis("j", 9, "spatial")),
        (Tensor("X", (4, 9), "float32"),),
        (Tensor("m", (4,), "float32"), Tensor("s", (4,), "float32")),
        Tensor("Y", (4, 9), "float32"),
        (
            Stage("m", (i,), x, "max"),
            Stage("s", (i,), shifted, "sum"),
            Stage("Y", (i, j), Call("div", (shifted, s))),
        ),
    )
    (x_value,), out = run(w)
    close(out, torch.softmax(x_value, 1))


def test_a_diagonal_and_a_number() -> None:
    i = axis("i")
    w = Workload(
        (Axis("i", 5, "spatial"),),
        (Tensor("X", (5, 5), "float32"),),
        (),
        Tensor("Y", (5,), "float32"),
        (Stage("Y", (i,), Call("mul", (Read("X", (i, i)), Const(2.0)))),),
    )
    (x,), out = run(w)
    close(out, 2 * x.diagonal())


def test_an_input_may_be_smaller_than_what_reads_it() -> None:
    i = axis("i")
    w = Workload(
        (Axis("i", 5, "spatial"),),
        (Tensor("X", (3,), "float32"),),
        (),
        Tensor("Y", (5,), "float32"),
        (Stage("Y", (i,), Read("X", (i + Affine.of({}, -1),))),),
    )
    out = reference.evaluate(w, [torch.tensor([1.0, 2.0, 3.0])])["Y"]
    assert out.tolist() == [0.0, 1.0, 2.0, 3.0, 0.0]


def test_a_shift_moves_what_follows() -> None:
    w = matmul(4, 4, 4, dtype="float32", epilogue=("scale:0.25",))
    inputs = sample_data.random_inputs(w, 0, CPU)
    plain = reference.evaluate(w, inputs)["C"]
    moved = reference.evaluate(w, inputs, {"acc": 2.0})["C"]
    close(moved, plain + 0.5)


def test_inputs_repeat_by_seed_and_keep_their_layout() -> None:
    padded = Tensor("X", (3, 5), "float16", strides=(8, 1))
    repeated = Tensor("Z", (4, 6), "float32", strides=(0, 1))
    odd = Tensor("O", (7,), "float16", alignment_bytes=2)
    i, j = axis("i"), axis("j")
    w = Workload(
        (Axis("i", 3, "spatial"), Axis("j", 5, "spatial")),
        (padded, repeated, odd),
        (),
        Tensor("Y", (3, 5), "float16"),
        (Stage("Y", (i, j), Read("X", (i, j))),),
    )
    first, again = (sample_data.random_inputs(w, 7, CPU) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    assert not torch.equal(first[0], sample_data.random_inputs(w, 8, CPU)[0])
    x, z, o = first
    assert x.stride() == (8, 1)
    assert x.as_strided((2, 8), (8, 1))[:, 5:].isnan().all()
    assert z.stride() == (0, 1)
    assert o.data_ptr() % 4 == 2
    assert math.isfinite(float(x.float().sum()))
    edge = sample_data.edge_inputs(w, 7, CPU)[0]
    assert set(edge.flatten().tolist()) <= {-2.0, -1.0, 0.0, 1.0, 2.0}
