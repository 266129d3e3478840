"""Convolutions are found by structure, and torch's forms of them compute the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autosched import te
from measure import sample_data
from measure.convolution import Window
from measure.library import library_forms
from measure.reference import evaluate
from measure.tensor import empty
from measure.windowed import library_convolutions
from search_space.expr import Affine, Call, Const, Expr, Read
from search_space.workload import Axis, Stage, Tensor, Workload

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Dim:
    """One spatial dimension: extents of input and taps, stride, padding, dilation, what is more."""

    size: int
    taps: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1

    @property
    def out(self) -> int:
        reach = self.dilation * (self.taps - 1)
        return (self.size + self.before + self.after - reach - 1) // self.stride + 1

    @property
    def spread(self) -> int:
        """The output of a transposed convolution; ``after`` is its output padding."""
        reach = self.dilation * (self.taps - 1)
        return (self.size - 1) * self.stride - 2 * self.before + reach + 1 + self.after


def plus(*terms: tuple[int, str], constant: int = 0) -> Affine:
    return Affine.of({axis: factor for factor, axis in terms}, constant)


def conv(
    dims: Sequence[Dim],
    *,
    groups: int = 0,
    channels: int = 3,
    out: int = 4,
    last: bool = True,
    dtype: str = "float32",
    precision: str = "ieee",
    epilogue: Sequence[str] = (),
) -> Workload:
    """Return a convolution by the formula of the ADR; 0 groups or channels: no such dimension."""
    lead = "g" if groups else ""
    inner = "c" if channels else ""
    free = "o" if out else ""
    ys, rs = [f"y{n}" for n in range(len(dims))], [f"r{n}" for n in range(len(dims))]
    extents = {"n": 2, "g": groups, "c": channels, "o": out}
    extents |= {y: d.out for y, d in zip(ys, dims, strict=True)}
    extents |= {r: d.taps for r, d in zip(rs, dims, strict=True)}
    places = [
        plus((d.stride, y), (d.dilation, r), constant=-d.before)
        for y, r, d in zip(ys, rs, dims, strict=True)
    ]
    image = laid("n", [*lead], [*inner], places, last=last)
    weights = laid("", [*lead, *free], [*inner], [plus((1, r)) for r in rs], last=last)
    made = laid("n", [*lead, *free], [], [plus((1, y)) for y in ys], last=last)
    sizes = {"n": 2, "g": groups, "c": channels, "o": out}
    x = shape_of(image, sizes, [d.size for d in dims])
    w = shape_of(weights, sizes, [d.taps for d in dims])
    order = [form.axes[0] for form in made]
    reduced = [*inner, *rs]
    return built(
        extents, order, reduced, (x, image), (w, weights), made, dtype, precision, epilogue
    )


def laid(
    first: str, groups: list[str], inner: list[str], spatial: list[Affine], *, last: bool
) -> list[Affine]:
    """Order dimensions: channels last or first; an output's channels of a weight come first."""
    n, g, c = ([plus((1, a)) for a in axes] for axes in ([*first], groups, inner))
    if not first:
        return [*g, *spatial, *c] if last else [*g, *c, *spatial]
    return [*n, *spatial, *g, *c] if last else [*n, *g, *c, *spatial]


def shape_of(
    forms: Sequence[Affine], sizes: dict[str, int], spatial: Sequence[int]
) -> tuple[int, ...]:
    rest = list(spatial)
    return tuple(sizes[f.single] if f.single in sizes else rest.pop(0) for f in forms)


def built(
    extents: dict[str, int],
    order: Sequence[str],
    reduced: Sequence[str],
    x: tuple[tuple[int, ...], Sequence[Affine]],
    w: tuple[tuple[int, ...], Sequence[Affine]],
    index: Sequence[Affine],
    dtype: str,
    precision: str,
    epilogue: Sequence[str],
    shape: tuple[int, ...] | None = None,
) -> Workload:
    product = Call("mul", (Read("X", tuple(x[1])), Read("W", tuple(w[1]))))
    axes = tuple(Affine.axis(a) for a in order)
    value: Expr = Read("acc", axes)
    more: list[Tensor] = []
    where = [n for n, form in enumerate(index) if form.single in ("g", "o")]
    out = shape or tuple(extents[f.axes[0]] for f in index)
    for word in epilogue:
        dims = where if word in ("bias", "scale") else list(range(len(index)))
        if word == "relu":
            value = Call("max", (value, Const(0.0)))
            continue
        held = Tensor(word, tuple(out[d] for d in dims), dtype)
        more.append(held)
        operand = Read(word, tuple(index[d] for d in dims))
        value = Call("mul" if word == "scale" else "add", (value, operand))
    kinds = [*((a, "spatial") for a in order), *((a, "reduction") for a in reduced)]
    return Workload(
        tuple(Axis(a, extents[a], kind) for a, kind in kinds),  # type: ignore[arg-type]
        (Tensor("X", x[0], dtype), Tensor("W", w[0], dtype), *more),
        (Tensor("acc", tuple(extents[a] for a in order), "float32"),),
        Tensor("Y", out, dtype),
        (Stage("acc", axes, product, "sum"), Stage("Y", tuple(index), value)),
        precision,  # type: ignore[arg-type]
    )


def transposed(
    dims: Sequence[Dim],
    *,
    groups: int = 0,
    last: bool = True,
    shifted: bool = True,
    epilogue: Sequence[str] = (),
) -> Workload:
    """Return a transposed convolution by residue classes, as the ADR writes it.

    ``shifted`` starts q at the first that reaches the output, and leaves axes of one out.
    """
    extents = {"n": 2, "g": groups, "c": 3, "o": 4}
    image, taps, index, order, reduced = [], [], [], [], []
    for k, d in enumerate(dims):
        common = math.gcd(d.stride, d.dilation)
        period, shift = d.stride // common, d.dilation // common
        classes, steps = min(period, d.taps), -(-d.taps // period)
        start = -((d.dilation * (classes - 1) - d.before) // d.stride) if shifted else 0
        q, t, u = f"q{k}", f"t{k}", f"u{k}"
        extents |= {q: (d.spread - 1 + d.before) // d.stride - start + 1, t: steps, u: classes}
        keep_t = not shifted or steps > 1
        keep_u = not shifted or classes > 1
        image.append(plus((1, q), (-shift * keep_t, t), constant=start))
        taps.append(plus((period * keep_t, t), (keep_u, u)))
        at = d.stride * start - d.before
        index.append(plus((d.stride, q), (d.dilation * keep_u, u), constant=at))
        order += [q, u] if keep_u else [q]
        reduced += [t] if keep_t else []
    has_taps = [bool(form.axes) for form in taps]
    lead = ["g"] if groups else []
    x = laid("n", lead, ["c"], image, last=last)
    w = laid("", [*lead, "c"], ["o"], [f for f in taps if f.axes], last=last)
    y = laid("n", [*lead, "o"], [], index, last=last)
    sizes = {"n": 2, "g": groups, "c": 3, "o": 4}
    return built(
        extents,
        ["n", *lead, "o", *order],
        ["c", *reduced],
        (shape_of(x, sizes, [d.size for d in dims]), x),
        (shape_of(w, sizes, [d.taps for d, k in zip(dims, has_taps, strict=True) if k]), w),
        y,
        "float32",
        "ieee",
        epilogue,
        shape_of(y, sizes, [d.spread for d in dims]),
    )


def check(workload: Workload, *, kind: str) -> list[str]:
    """Hold every form to the reference and return their names."""
    inputs = sample_data.random_inputs(workload, 0, CPU)
    expected = evaluate(workload, inputs)["Y"].float()
    forms = library_forms(workload)
    assert forms
    half = workload.output.dtype != "float32"
    for form in forms:
        output = empty(workload.output, CPU).fill_(torch.nan)
        made = form.call(inputs, output)
        found = output if made is None else made
        assert found.dtype == output.dtype
        rtol, atol = (2e-2, 2e-1) if half else (1e-4, 1e-4)
        torch.testing.assert_close(found.float(), expected, rtol=rtol, atol=atol, msg=form.name)
    names = [form.name for form in forms]
    assert any(name.startswith(kind) for name in names), names
    return names


DIMS = st.builds(
    Dim,
    size=st.integers(3, 7),
    taps=st.integers(1, 3),
    stride=st.integers(1, 4),
    before=st.integers(0, 2),
    after=st.integers(0, 3),
    dilation=st.integers(1, 3),
)
FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


@FEW
@given(
    dims=st.lists(DIMS, min_size=1, max_size=3),
    groups=st.sampled_from([0, 2]),
    shape=st.sampled_from([(3, 4), (0, 0), (0, 2), (1, 4)]),
    last=st.booleans(),
)
def test_convolutions_of_every_shape(
    dims: list[Dim], groups: int, shape: tuple[int, int], last: bool
) -> None:
    assume(all(d.size + d.before + d.after > d.dilation * (d.taps - 1) for d in dims))
    channels, out = shape if groups else (3, 4)
    workload = conv(dims, groups=groups, channels=channels, out=out, last=last)
    check(workload, kind=f"conv{len(dims)}d")


@FEW
@given(
    dims=st.lists(DIMS, min_size=1, max_size=2),
    groups=st.sampled_from([0, 2]),
    last=st.booleans(),
    shifted=st.booleans(),
)
def test_transposed_convolutions_of_every_shape(
    dims: list[Dim], groups: int, last: bool, shifted: bool
) -> None:
    assume(all(d.spread > 0 and d.after < max(d.stride, d.dilation) for d in dims))
    assume(any(d.taps > 1 or d.stride > 1 for d in dims))
    workload = transposed(dims, groups=groups, last=last, shifted=shifted)
    check(workload, kind=f"conv_transpose{len(dims)}d")


PAD = Dim(6, 3, 1, 1, 1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("epilogue", "names"),
    [
        (("bias",), {"conv2d(bias)"}),
        (("bias", "relu"), {"conv2d(bias), relu", "cudnn_convolution_relu(bias)"}),
        (("relu", "bias"), {"conv2d, relu, add", "cudnn_convolution_relu, add"}),
        (("bias", "residual", "relu"), {"cudnn_convolution_add_relu(bias)"}),
        (("scale", "bias", "relu"), {"conv2d, mul, add, relu"}),
    ],
)
def test_steps_go_into_the_call_where_it_takes_them(
    last: bool, epilogue: tuple[str, ...], names: set[str]
) -> None:
    found = check(conv([PAD, PAD], epilogue=epilogue, last=last), kind="conv2d")
    assert names <= set(found)
    grouped = check(conv([PAD, PAD], epilogue=epilogue, last=last, groups=2), kind="conv2d")
    assert grouped == found


def test_a_transposed_convolution_takes_a_bias_along() -> None:
    dim = Dim(5, 4, 2, 1)
    names = check(transposed([dim, dim], epilogue=("bias", "relu")), kind="conv_transpose2d")
    assert names[0] == "conv_transpose2d(bias), relu"


def test_both_formats_are_tried_and_none_twice() -> None:
    workload = conv([PAD, PAD], last=True)
    assert check(workload, kind="conv2d") == ["conv2d", "conv2d, in channels_first"]
    workload = conv([PAD, PAD], last=False)
    assert check(workload, kind="conv2d") == ["conv2d", "conv2d, in channels_last"]


def test_a_result_that_lies_as_the_output_does_is_handed_over_as_it_is() -> None:
    workload = conv([PAD, PAD], last=True)
    inputs = sample_data.random_inputs(workload, 0, CPU)
    output = empty(workload.output, CPU)
    stored, other = library_forms(workload)
    assert stored.call(inputs, output) is not None
    assert other.call(inputs, output) is None


def test_16_bits_and_tf32_leave_the_settings_as_they_were() -> None:
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    check(conv([PAD, PAD], dtype="bfloat16", epilogue=("bias",)), kind="conv2d")
    check(conv([PAD, PAD], precision="tf32"), kind="conv2d")
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32) == before


def test_a_pointwise_convolution_is_a_product_too() -> None:
    one = Dim(5, 1)
    assert check(conv([one, one], epilogue=("bias",)), kind="conv2d")[0] == "linear(bias)"
    strided = Dim(5, 1, 2)
    assert not any("linear" in n for n in check(conv([strided, strided]), kind="conv2d"))


def test_a_toeplitz_product_is_a_convolution_whose_taps_run_backwards() -> None:
    t, x = te.placeholder((11,), "T", "float32"), te.placeholder((6, 3), "X", "float32")
    k = te.reduce_axis(6, "k")
    y = te.compute((6, 3), lambda i, j: te.sum(t[i - k + 5] * x[k, j], axis=k), "Y")
    workload = te.workload(y)
    check(workload, kind="conv1d")
    [*_, plain] = library_convolutions(workload)
    assert plain.windows == (Window(flipped=True),)


def test_what_is_no_convolution_has_no_such_form() -> None:
    x, w = te.placeholder((9, 4), "X", "float32"), te.placeholder((3, 4), "W", "float32")
    r, c = te.reduce_axis(3, "r"), te.reduce_axis(4, "c")
    # Two taps for one axis of the weights: a diagonal.
    y = te.compute((7, 4), lambda i, j: te.sum(x[i + r, j] * w[r, c] * w[r, c], axis=(r, c)), "Y")
    assert library_convolutions(te.workload(y)) == ()
    largest = te.compute((7, 4), lambda i, j: te.max(x[i + r, j] * w[r, j], axis=r), "Y")
    assert library_convolutions(te.workload(largest)) == ()
    summed = te.compute((7,), lambda i: te.sum(x[i + r, c] + w[r, c], axis=(r, c)), "Y")
    assert library_convolutions(te.workload(summed)) == ()
