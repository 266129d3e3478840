"""Names reach source text: plain identifiers only."""

import pytest

from autosched.te.error import IllegalExpression
from autosched.te.name import check_name, fresh_name


@pytest.mark.parametrize("name", ["A", "i", "acc", "bias_1", "x0", "Wq", "n", "y"])
def test_plain_names_pass(name: str) -> None:
    assert check_name(name, "tensor") == name


@pytest.mark.parametrize(
    "name",
    ["", "1a", "_a", "a-b", "a b", "a.b", "é", "\uff41", "a\n", "x;import os", "a" * 33, 3, None],
)
def test_other_texts_are_refused(name: object) -> None:
    with pytest.raises(IllegalExpression, match=r"not a plain name|longer than 32"):
        check_name(name, "tensor")


@pytest.mark.parametrize(
    "name",
    [
        "for",
        "lambda",
        "match",
        "None",
        "True",
        "null",
        "range",
        "print",
        "min",
        "tl",
        "triton",
        "exp",
        "relu",
        "float16",
        "maximum",
    ],
)
def test_words_are_refused(name: str) -> None:
    with pytest.raises(IllegalExpression, match=f"axis '{name}' is a reserved word"):
        check_name(name, "axis")


def test_fresh_name_counts_up() -> None:
    assert fresh_name("acc", frozenset()) == "acc"
    assert fresh_name("acc", frozenset({"acc", "acc_1"})) == "acc_2"
