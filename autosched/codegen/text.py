"""Lines of source and names that do not clash. Knows nothing of what the lines mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from autosched.codegen.value import SHORT
from search_space.index import Atom, Index, Quotient, Var

INDENT = "    "
NO_NAMES: Mapping[Atom, str] = MappingProxyType({})


class Lines:
    """Source text under construction, one line at a time."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, line: str = "") -> None:
        """Append one line at the current depth."""
        self._lines.append(f"{INDENT * self._depth}{line}" if line else "")

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append ``header`` and indent what is added within."""
        self.add(header)
        self._depth += 1
        yield
        self._depth -= 1

    def written(self, optional: Collection[str] = ()) -> tuple[str, ...]:
        """Return the lines so far, less assignments to ``optional`` names that nothing reads."""
        words = Counter(re.findall(r"\w+", "\n".join(self._lines)))
        unread = {name for name in optional if words[name] == 1}
        return tuple(line for line in self._lines if line.split(" = ")[0].strip() not in unread)


class Names:
    """Local names of a kernel: each asked-for name, or a variant if it is taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, "tl", "triton", *SHORT.values()}

    def fresh(self, wish: str) -> str:
        """Return ``wish`` or, if taken, the first ``wish_N`` that is free, and take it."""
        name, number = wish, 2
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name


def index_text(
    index: Index,
    spell: Callable[[str], str],
    *,
    wide: bool = False,
    names: Mapping[Atom, str] = NO_NAMES,
) -> str:
    """Write an index as an expression; ``spell`` gives the text of an axis, ``names`` that of
    quotients and remainders that have been written.

    With ``wide`` each axis is widened to 64 bits before it is multiplied.
    """
    written = ""
    for atom, coefficient in index.terms:
        if isinstance(atom, Var) or atom in names:
            text = spell(atom.name) if isinstance(atom, Var) else names[atom]
            text = f"tl.cast({text}, tl.int64)" if wide else text
        else:
            sign = "//" if isinstance(atom, Quotient) else "%"
            inner = index_text(atom.value, spell, wide=wide, names=names)
            inner = f"({inner})" if len(atom.value.terms) > 1 or atom.value.constant else inner
            text = f"{inner} {sign} {atom.divisor}"
            text = f"({text})" if abs(coefficient) != 1 or len(index.terms) > 1 else text
        if abs(coefficient) != 1:
            text = f"{text} * {abs(coefficient)}"
        if not written:
            written = text if coefficient > 0 else f"-{text}"
        else:
            written = f"{written} {'+' if coefficient > 0 else '-'} {text}"
    if not written:
        return str(index.constant)
    if index.constant:
        written = f"{written} {'+' if index.constant > 0 else '-'} {abs(index.constant)}"
    return written


def unwrapped(text: str) -> str:
    """Return ``text`` without the parentheses around the whole of it, if there are any."""
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def expand(text: str, position: int, rank: int) -> str:
    """Return a vector placed along dimension ``position`` of ``rank``, by indexing with None."""
    if rank <= 1:
        return text
    marks = ", ".join(":" if d == position else "None" for d in range(rank))
    return f"{text}[{marks}]"
