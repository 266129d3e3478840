"""The words of the text form, each with its place. Knows nothing of what they mean together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from autosched.te.error import IllegalExpression

Kind = Literal["number", "name", "sign", "end"]
LONGEST_TEXT = 10_000
_SPACE = re.compile(r"[ \t\r\n]*")
_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("number", re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")),
    ("sign", re.compile(r"\+=|max=(?!=)|[][()+\-*/,;=]")),
    ("name", re.compile(r"[A-Za-z_][A-Za-z0-9_]*")),
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its kind, its text and where it starts, counted from 0."""

    kind: Kind
    text: str
    offset: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:40])


def tokens(text: str, path: tuple[str | int, ...]) -> tuple[Token, ...]:
    """Cut ``text`` into words, the last of kind "end"; raises IllegalExpression at ``path``."""
    if len(text) > LONGEST_TEXT:
        raise IllegalExpression(
            f"the text has {len(text)} characters, the limit is {LONGEST_TEXT}", path
        )
    found: list[Token] = []
    offset = _skip_space(text, 0)
    while offset < len(text):
        token = _token(text, offset)
        if token is None:
            raise IllegalExpression(f"character {text[offset]!r} has no meaning here", path, offset)
        found.append(token)
        offset = _skip_space(text, offset + len(token.text))
    return (*found, Token("end", "", len(text)))


def _token(text: str, offset: int) -> Token | None:
    matches = ((kind, pattern.match(text, offset)) for kind, pattern in _WORDS)
    return next((Token(kind, m.group(), offset) for kind, m in matches if m), None)


def _skip_space(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return match.end() if match else offset
