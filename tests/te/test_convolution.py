"""Convolutions by te, evaluated from their expression, against torch's own in float64."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.te import IllegalExpression
from autosched.te.convolution import BY_NAME, conv2d, conv_transpose1d
from autosched.te.geometry import DIMENSIONS, LAYOUTS
from autosched.te.operators import matmul
from measure import reference

SMALL = {"n": 2, "h": 6, "w": 5, "ci": 4, "co": 6, "kh": 3, "kw": 3, "dtype": "float16"}


@st.composite
def cases(draw: st.DrawFn, kind: str) -> tuple[int, dict[str, Any]]:
    """Return a rank and the arguments of a small convolution, which may have no output."""
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(rank)]

    groups, names = draw(st.integers(1, 3)), DIMENSIONS[rank]
    how: dict[str, Any] = {"n": 2, "stride": each(1, 4), "dilation": each(1, 3), "pad": each(0, 4)}
    how |= {"ci": groups * draw(st.integers(1, 2)), "layout": draw(st.sampled_from(LAYOUTS[rank]))}
    how |= dict(zip(names, each(1, 6), strict=True))
    how |= dict(zip((f"k{name}" for name in names), each(1, 4), strict=True))
    if kind == "depthwise_conv":
        return rank, how | {"multiplier": draw(st.integers(1, 3))}
    how |= {"groups": groups, "co": groups * draw(st.integers(1, 3))}
    if kind == "conv_transpose":
        most = [max(pair) for pair in zip(how["stride"], how["dilation"], strict=True)]
        how["output_pad"] = [draw(st.integers(0, m - 1)) for m in most]
    return rank, how


@pytest.mark.parametrize("kind", ["conv", "depthwise_conv", "conv_transpose"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_it_is_torchs(kind: str, data: st.DataObject) -> None:
    rank, how = data.draw(cases(kind))
    try:
        work = BY_NAME[f"{kind}{rank}d"](**how, dtype="float32", epilogue=("bias", "residual"))
    except IllegalExpression as error:
        assert error.path[0] in ("pad", *(f"k{name}" for name in DIMENSIONS[rank]))  # noqa: PT017
        return
    transposed, names = kind == "conv_transpose", DIMENSIONS[rank]
    groups = how["ci"] if kind == "depthwise_conv" else how["groups"]
    co = how.get("co", how["ci"] * how.get("multiplier", 1))
    sides = (how["ci"], co // groups) if transposed else (co, how["ci"] // groups)
    torch.manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64)

    x = normal(2, how["ci"], *(how[name] for name in names))
    w, bias = normal(*sides, *(how[f"k{name}"] for name in names)), normal(co)
    function = getattr(torch.nn.functional, f"conv{'_transpose' * transposed}{rank}d")
    extra = (
        (how["output_pad"], groups, how["dilation"]) if transposed else (how["dilation"], groups)
    )
    y = function(x, w, bias, how["stride"], how["pad"], *extra)
    residual = torch.randn_like(y)

    def stored(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if how["layout"] == LAYOUTS[rank][1] else tensor.movedim(1, -1)

    held = {"X": stored(x), "W": stored(w), "bias": bias, "residual": stored(residual)}
    inputs = [held[tensor.name].reshape(tensor.shape) for tensor in work.inputs]
    made = reference.evaluate(work, inputs)[work.output.name]
    torch.testing.assert_close(made, stored(y + residual).reshape(made.shape))


def test_same_padding_keeps_the_extent_divided_by_the_stride() -> None:
    work = conv2d(**SMALL, stride=2, pad="same")
    assert work.output.shape == (2, 3, 3, 6)
    # One row more than fits is padding, and it is after the input; columns have two, one each side.
    places = {str(form) for read in [work.stages[0].value.args[0]] for form in read.index}  # type: ignore[union-attr]
    assert len(places) == 4
    assert work.stages[0].value.args[0].index[1].constant == 0  # type: ignore[union-attr]


def test_a_kernel_of_one_is_a_product_of_matrices() -> None:
    one = conv2d(n=1, h=1, w=8, ci=16, co=32, kh=1, kw=1, dtype="float16")
    assert {axis.extent for axis in one.axes if axis.kind == "reduction"} == {1, 16}
    assert one.operations == matmul(8, 32, 16, dtype="float16").operations


def test_classes_that_no_tap_reaches_hold_what_follows_the_sum() -> None:
    work = conv_transpose1d(
        n=1, l=4, ci=2, co=3, kl=3, stride=2, dilation=2, dtype="float16", epilogue=("bias", "relu")
    )
    assert "elsewhere max(add(0.0,T2[e2]),0.0)" in work.canonical
    plain = conv_transpose1d(n=1, l=4, ci=2, co=3, kl=3, stride=2, dtype="float16")
    assert plain.elsewhere is None
    assert "elsewhere" not in plain.canonical


def test_operations_of_a_transposed_one_are_those_of_its_taps() -> None:
    work = conv_transpose1d(n=3, l=8, ci=5, co=7, kl=4, stride=2, pad=1, dtype="float16")
    assert work.operations == 2 * 3 * 8 * 4 * 5 * 7


@pytest.mark.parametrize(
    ("changed", "field", "fact"),
    [
        ({"stride": 0}, "stride", "0 is below 1"),
        ({"stride": (1, 2, 3)}, "stride", "3 number"),
        ({"pad": -1}, "pad", "-1 is below 0"),
        ({"pad": ((1, 2, 3), 0)}, "pad", "a pair"),
        ({"pad": "full"}, "pad", "'full'"),
        ({"dilation": 4}, "kh", "reaches 9 along h"),
        ({"groups": 3}, "groups", "do not divide ci"),
        ({"groups": 4}, "groups", "do not divide co"),
        ({"layout": "NCL"}, "layout", "NHWC and NCHW"),
        ({"output_pad": 1}, "output_pad", "transposed"),
        ({"co": None}, "co", "is missing"),
        ({"epilogue": ("softmax",)}, "epilogue", "is no epilogue"),
        ({"constant": ("V",)}, "constant", "is no input"),
        ({"dtype": "float64"}, "dtype", "is no dtype of operands"),
    ],
)
def test_refusals_name_the_argument(changed: dict[str, Any], field: str, fact: str) -> None:
    with pytest.raises(IllegalExpression, match=fact) as refused:
        conv2d(**(SMALL | changed))
    assert refused.value.path[0] == field


def test_output_padding_stays_below_stride_and_dilation() -> None:
    with pytest.raises(IllegalExpression, match="not below") as refused:
        conv_transpose1d(n=1, l=4, ci=2, co=2, kl=3, stride=2, output_pad=2, dtype="float16")
    assert refused.value.path == ("output_pad",)
