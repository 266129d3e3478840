"""The small pieces that kernels are written with."""

import math
from typing import Any

import numpy as np
import pytest

from autosched.codegen.text import Lines, Names, expand, index_text, unwrapped
from autosched.codegen.value import SHORT_TEXTS, constant_text, value_text
from search_space.expr import Affine, Call, Cast, Const, Read, gelu
from search_space.index import Index, from_affine, quotient, remainder, variable

EXTENTS = {"a": 100, "b": 100}


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Index(), "0"),
        (Index((), -3), "-3"),
        (variable("a"), "a"),
        (variable("a").scale(-4), "-a * 4"),
        (from_affine(Affine.of({"a": 64, "b": 1}, 2)), "a * 64 + b + 2"),
        (from_affine(Affine.of({"a": 1, "b": -2}, -1)), "a - b * 2 - 1"),
        (quotient(variable("a"), 7, EXTENTS), "a // 7"),
        (quotient(variable("a") + variable("b"), 7, EXTENTS).scale(3), "((a + b) // 7) * 3"),
        (remainder(variable("a"), 7, EXTENTS) + variable("b"), "(a % 7) + b"),
    ],
)
def test_indices_read_as_people_write_them(index: Index, text: str) -> None:
    assert index_text(index, str) == text


def test_wide_indices_are_cast_before_they_are_multiplied() -> None:
    wide = index_text(variable("a").scale(9), str, wide=True)
    assert wide == "tl.cast(a, tl.int64) * 9"


def test_vectors_are_placed_along_their_dimension() -> None:
    assert expand("i", 0, 2) == "i[:, None]"
    assert expand("i", 1, 3) == "i[None, :, None]"
    assert expand("i", 0, 1) == "i"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("(a + b)", "a + b"),
        ("(a) * (b)", "(a) * (b)"),
        ("f(a)", "f(a)"),
        ("((a) + b)", "(a) + b"),
        ("a", "a"),
    ],
)
def test_only_parentheses_around_the_whole_are_dropped(text: str, inner: str) -> None:
    assert unwrapped(text) == inner


def test_names_never_clash() -> None:
    names = Names(["acc"])
    assert [names.fresh(wish) for wish in ("acc", "acc", "tl", "x")] == [
        "acc_2",
        "acc_3",
        "tl_2",
        "x",
    ]


def test_lines_indent_and_drop_what_nothing_reads() -> None:
    lines = Lines()
    lines.add("i = 1")
    lines.add("j = 2")
    with lines.block("for k in x:"):
        lines.add("use(j)")
    assert lines.written(["i", "j"]) == ("j = 2", "for k in x:", "    use(j)")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (3, "3"), (float("inf"), 'float("inf")'), (1e-30, "1e-30")],
)
def test_constants_are_read_back_exactly(value: float, text: str) -> None:
    assert constant_text(value) == text


def test_what_occurs_twice_is_written_once() -> None:
    x = Read("x", ())
    written: list[str] = []

    def name(text: str) -> str:
        written.append(text)
        return "t"

    term = Call("add", (x, Const(1.0)))
    text = value_text(gelu(term), lambda _: "x", "float32", name)
    assert written == ["(x + 1.0)"]
    assert "x" not in text.replace("erf", "").replace("exp", "")


def test_casts_round_and_come_back() -> None:
    text = value_text(Cast("float16", Read("x", ())), lambda _: "x", "float32")
    assert text == "(x).to(tl.float16).to(tl.float32)"


def test_erf_is_short_where_the_result_is() -> None:
    x = Call("erf", (Read("x", ()),))
    assert value_text(x, lambda _: "x", "float32") == "tl.erf(x)"
    assert value_text(x, lambda _: "x", "float32", short=True) == "short_erf(x)"


def test_the_short_erf_is_as_near_as_it_says() -> None:
    text = SHORT_TEXTS["short_erf"].replace("@triton.jit\n", "").replace("tl.", "np.")
    namespace: dict[str, Any] = {"np": np}
    exec(text, namespace)
    points = np.linspace(-6, 6, 10_001)
    exact = np.array([math.erf(x) for x in points])
    assert np.abs(namespace["short_erf"](points) - exact).max() < 1.6e-7
