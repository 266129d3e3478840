"""Which names axes and tensors may carry. Knows that they reach source text, not how."""

from __future__ import annotations

import builtins
import keyword
import re

from autosched.te.error import IllegalExpression
from search_space.dtype import DTYPES
from search_space.expr import DERIVED, FUNCTIONS

#: Words that mean something in Python, in generated kernels, in YAML or in the text form.
RESERVED: frozenset[str] = frozenset(
    {
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *("tl", "triton", "constexpr", "torch", "self"),
        *("true", "TRUE", "false", "FALSE", "null", "Null", "NULL"),
        *("maximum", "minimum"),
        *FUNCTIONS,
        *DERIVED,
        *DTYPES,
    }
)
LONGEST = 32
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def check_name(name: object, thing: str) -> str:
    """Return ``name``; raise IllegalExpression unless it is a plain identifier and no word.

    Plain is a letter, then letters, digits and underscores, all ASCII, at most 32 of them.
    """
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise IllegalExpression(
            f"{thing} {str(name)[:40]!r} is not a plain name (a letter, then letters, digits, _)"
        )
    if len(name) > LONGEST:
        raise IllegalExpression(f"{thing} {name[:40]!r} is longer than {LONGEST} characters")
    if name in RESERVED:
        raise IllegalExpression(f"{thing} {name!r} is a reserved word, choose another name")
    return name


def fresh_name(wish: str, taken: frozenset[str]) -> str:
    """Return ``wish``, or the first of ``wish_1``, ``wish_2``... that is not taken."""
    names = (f"{wish}_{n}" if n else wish for n in range(len(taken) + 1))
    return next(name for name in names if name not in taken)
