"""Affine left sides: what they come to, in Python and in text, against loops."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from autosched import te
from autosched.te import text
from autosched.te.convolution import conv_transpose1d, conv_transpose2d, depthwise_conv2d
from autosched.te.form import Form, Output, Stored
from measure import reference
from search_space.workload import Workload


def stored(**shapes: tuple[int, ...]) -> dict[str, Stored]:
    return {name: Stored(shape, "float32") for name, shape in shapes.items()}


def evaluated(work: Workload, held: Mapping[str, np.ndarray]) -> np.ndarray:
    inputs = [torch.from_numpy(held[tensor.name]) for tensor in work.inputs]
    return reference.evaluate(work, inputs)[work.output.name].numpy()


def normal(inputs: Mapping[str, Stored]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(how.shape) for name, how in inputs.items()}


def again(work: Workload) -> Workload:
    form = text.printer.form(work)
    return text.read(form)


SCATTERED = "Y[n, 2*y+r-1, o] += X[n,y,c] * W[c,r,o]"
SIZES = {"n": 2, "y": 5, "r": 3, "o": 4, "c": 3}


def test_a_scattered_sum_is_that_of_its_points() -> None:
    inputs = stored(X=(2, 5, 3), W=(3, 3, 4))
    work = text.parse(SCATTERED, SIZES, inputs)
    assert work.output.shape == (2, 10, 4)
    held = normal(inputs)
    want = np.zeros((2, 10, 4))
    for y, r in itertools.product(range(5), range(3)):
        if 2 * y + r - 1 >= 0:
            want[:, 2 * y + r - 1] += held["X"][:, y] @ held["W"][:, r]
    np.testing.assert_allclose(evaluated(work, held), want)
    same = conv_transpose1d(n=2, l=5, ci=3, co=4, kl=3, stride=2, pad=1, output_pad=1,
                            dtype="float32")  # fmt: skip
    assert work.key == same.key


def test_the_epilogue_has_axes_of_its_own() -> None:
    inputs = stored(X=(2, 5, 3), W=(3, 3, 4), R=(2, 12, 4))
    sizes = SIZES | {"p": 12}
    work = text.parse(
        SCATTERED, sizes, inputs, "relu(Y[n,p,o] + R[n,p,o])", output=Output(shape=(2, 12, 4))
    )
    held = normal(inputs)
    plain = text.parse(
        SCATTERED, SIZES, stored(X=(2, 5, 3), W=(3, 3, 4)), output=Output(shape=(2, 12, 4))
    )
    want = np.maximum(evaluated(plain, held) + held["R"], 0)
    np.testing.assert_allclose(evaluated(work, held), want)


@pytest.mark.parametrize(
    "work",
    [
        conv_transpose1d(n=2, l=5, ci=3, co=4, kl=3, stride=2, pad=1, dtype="float16",
                         epilogue=("bias", "residual", "relu")),
        conv_transpose2d(n=1, h=3, w=4, ci=2, co=2, kh=3, kw=2, stride=(3, 2), dilation=(1, 2),
                         dtype="float16", epilogue=("bias",), layout="NCHW"),
        conv_transpose2d(n=1, h=3, w=4, ci=4, co=2, kh=2, kw=2, stride=2, groups=2,
                         dtype="float32", precision="tf32"),
        depthwise_conv2d(n=1, h=3, w=4, ci=4, kh=1, kw=1, pad=((0, 1), (1, 0)), dtype="float16"),
    ],
    ids=lambda work: work.label,
)  # fmt: skip
def test_texts_read_back(work: Workload) -> None:
    assert again(work).canonical == work.canonical


def test_places_may_leave_gaps_and_run_backwards() -> None:
    x = te.placeholder((6, 3), "X", "float32")
    i, k = te.axis(6, "i"), te.reduce_axis(3, "k")
    rows = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), "rows")
    work = te.workload(te.place((9,), 7 - i, rows[i] + 1.0, "Y"))
    held = {"X": np.arange(18.0).reshape(6, 3)}
    want = np.ones(9)
    want[2:8] = held["X"].sum(1)[::-1] + 1
    np.testing.assert_allclose(evaluated(work, held), want)
    assert work.elsewhere is not None
    assert again(work).canonical == work.canonical


def test_a_polynomial_product_scatters_too() -> None:
    inputs = stored(A=(4,), B=(3,))
    work = text.parse("C[i+j] += A[i] * B[j]", {"i": 4, "j": 3}, inputs)
    held = normal(inputs)
    np.testing.assert_allclose(evaluated(work, held), np.convolve(held["A"], held["B"]))


@pytest.mark.parametrize(
    ("expr", "fact"),
    [
        ("Y[n, y-r, o] += X[n,y,c] * W[c,r,o]", "factors of 1 or more"),
        ("Y[n, 2*y+r+c, o] += X[n,y,c] * W[c,r,o]", "one axis or two"),
        ("Y[n, y+r, n, o] += X[n,y,c] * W[c,r,o]", "stands twice"),
        ("Y[n, 2*y+r, o] max= X[n,y,c] * W[c,r,o]", "only \\+= reduces"),
        ("Y[n, 2*y+r, o, 0] += X[n,y,c] * W[c,r,o]", "extent 1"),
        ("Y[n, 2*y+r, o] += X[n,y,c] + W[c,r,o]", "takes a product"),
    ],
)
def test_refusals_say_what_works(expr: str, fact: str) -> None:
    with pytest.raises(te.IllegalExpression, match=fact):
        text.parse(expr, SIZES, stored(X=(2, 5, 3), W=(3, 3, 4)))


def test_a_gap_needs_a_value() -> None:
    with pytest.raises(te.IllegalExpression, match="does not say what it holds elsewhere"):
        text.parse("Y[2*i] = X[i]", {"i": 4}, stored(X=(4,)))
    with pytest.raises(te.IllegalExpression, match="share elements"):
        text.parse("Y[2*i+j] = X[i,j]", {"i": 4, "j": 3}, stored(X=(4, 3)))
    work = text.parse("Y[2*i] += X[i]", {"i": 4}, stored(X=(4,)))
    held = {"X": np.arange(4.0)}
    np.testing.assert_allclose(evaluated(work, held), [0, 0, 1, 0, 2, 0, 3])


OWN: list[tuple[str, dict[str, int], dict[str, tuple[int, ...]], Any]] = [
    ("Y[i] += T[i-j+3] * X[j]", {"i": 6, "j": 4}, {"T": (9,), "X": (4,)},
     lambda h: np.array([sum(h["T"][i - j + 3] * h["X"][j] for j in range(4)) for i in range(6)])),
    ("Y[i] += X[3*i+k] * W[k]", {"i": 4, "k": 3}, {"X": (12,), "W": (3,)},
     lambda h: h["X"].reshape(4, 3) @ h["W"]),
    ("D[i,j] += (A[i,k]-B[j,k])*(A[i,k]-B[j,k])", {"i": 3, "j": 4, "k": 5},
     {"A": (3, 5), "B": (4, 5)},
     lambda h: ((h["A"][:, None] - h["B"][None]) ** 2).sum(-1)),
    ("R[i] += A[i,k]", {"i": 3, "k": 5}, {"A": (3, 5)}, lambda h: h["A"].sum(1)),
    ("R[k] max= A[i,k]", {"i": 3, "k": 5}, {"A": (3, 5)}, lambda h: h["A"].max(0)),
    ("R[] += A[i,k]", {"i": 3, "k": 5}, {"A": (3, 5)}, lambda h: h["A"].sum()),
    ("R[z] += A[i,k]", {"z": 1, "i": 3, "k": 5}, {"A": (3, 5)}, lambda h: h["A"].sum()[None]),
    ("P[i] max= A[2*i+k-1]", {"i": 3, "k": 3}, {"A": (6,)},
     lambda h: np.array([h["A"][max(0, 2 * i - 1):2 * i + 2].max() for i in range(3)])),
    ("T[i,j] += A[i,k]*B[k,j]*C[k]", {"i": 2, "j": 3, "k": 4},
     {"A": (2, 4), "B": (4, 3), "C": (4,)}, lambda h: h["A"] * h["C"] @ h["B"]),
    ("Y[i] = relu(2*X[i]+1)/2", {"i": 7}, {"X": (7,)},
     lambda h: np.maximum(2 * h["X"] + 1, 0) / 2),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "sizes", "shapes", "numpys"), OWN, ids=[o[0] for o in OWN])
def test_expressions_of_ones_own(
    expr: str, sizes: dict[str, int], shapes: dict[str, tuple[int, ...]], numpys: Any
) -> None:
    inputs = stored(**shapes)
    work = text.read(Form(expr, sizes, inputs))
    held = normal(inputs)
    np.testing.assert_allclose(evaluated(work, held), numpys(held))
    assert again(work).canonical == work.canonical
