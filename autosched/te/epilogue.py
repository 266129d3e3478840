"""What named operators do to each element of their result, said in words. Knows no operator: how
an input of a word lies is told by it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from autosched.te import function
from autosched.te.error import IllegalExpression
from autosched.te.name import fresh_name
from autosched.te.value import Value

#: Epilogues without an argument or an input of their own.
ELEMENTWISE: dict[str, Callable[[Value], Value]] = {
    "relu": function.relu,
    "gelu": function.gelu,
    "gelu_tanh": function.gelu_tanh,
    "silu": function.silu,
}
MOST_EPILOGUES = 8
_FACTOR = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

#: From a word, the name of its input and the value so far to the value after; None where the word
#: is not one of the operator's own.
Join = Callable[[str, str, Value], Value | None]


def apply(
    epilogue: Sequence[str],
    result: Value,
    join: Join,
    known: Sequence[str],
    taken: Iterable[str] = (),
) -> Value:
    """Apply the words of ``epilogue`` in order; inputs that a word repeats get names of their own,
    none of ``taken``. Raises IllegalExpression, its ``path`` the place in ``epilogue``."""
    if len(epilogue) > MOST_EPILOGUES:
        raise IllegalExpression(
            f"{len(epilogue)} epilogues are given, the limit is {MOST_EPILOGUES}", ("epilogue",)
        )
    names = set(taken)
    for place, word in enumerate(epilogue):
        name = fresh_name(word, frozenset(names))
        names.add(name)
        try:
            joined = join(word, name, result)
            result = _function(word, known)(result) if joined is None else joined
        except IllegalExpression as error:
            raise IllegalExpression(error.fact, ("epilogue", place)) from error
    return result


def _function(word: str, known: Sequence[str]) -> Callable[[Value], Value]:
    if word in ELEMENTWISE:
        return ELEMENTWISE[word]
    name, _, factor = str(word).partition(":")
    if name == "scale" and _FACTOR.fullmatch(factor) and math.isfinite(float(factor)):
        return lambda operand: operand * float(factor)
    raise IllegalExpression(f"{str(word)[:40]!r} is no epilogue; known: {', '.join(known)}")
