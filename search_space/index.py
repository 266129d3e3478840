"""Index arithmetic: linear forms over axes, quotients and remainders, kept simple as they grow.

Knows nothing of loops or kernels. ``extents`` maps every axis that may occur to its extent, so
that a range is known for every form and divisions can be resolved or shown to be needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from search_space.expr import Affine

Extents = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Var:
    """One axis."""

    name: str


@dataclass(frozen=True, slots=True)
class Quotient:
    """``value // divisor``."""

    value: Index
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """``value % divisor``."""

    value: Index
    divisor: int


Atom = Var | Quotient | Remainder


@dataclass(frozen=True, slots=True)
class Index:
    """``sum(coefficient * atom) + constant``; atoms are distinct, coefficients not zero."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Index) -> Index:
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + coefficient
        kept = tuple((a, c) for a, c in terms.items() if c)
        return Index(kept, self.constant + other.constant)

    def scale(self, factor: int) -> Index:
        """Return ``factor`` times this form."""
        if factor == 0:
            return Index()
        return Index(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)


def variable(name: str) -> Index:
    """Return the form that is one axis."""
    return Index(((Var(name), 1),))


def from_affine(form: Affine) -> Index:
    """Return an affine form of an expression as an Index."""
    return Index(tuple((Var(name), c) for name, c in form.terms), form.constant)


def parts_of(fused: str, extents: Sequence[int]) -> list[Index]:
    """Return the axes of ``extents``, outermost first, over whose combinations ``fused`` counts."""
    inner = total = math.prod(extents)
    parts = []
    for extent in extents:
        inner //= extent
        whole = Index(((Quotient(variable(fused), inner), 1),)) if inner > 1 else variable(fused)
        is_first = inner * extent == total
        parts.append(whole if is_first else Index(((Remainder(whole, extent), 1),)))
    return parts


def axes_of(index: Index) -> Iterator[str]:
    """Yield every axis that occurs, also within quotients and remainders."""
    for atom, _ in index.terms:
        if isinstance(atom, Var):
            yield atom.name
        else:
            yield from axes_of(atom.value)


def interval(index: Index, extents: Extents) -> tuple[int, int]:
    """Return the least and the greatest value (both included)."""
    low = high = index.constant
    for atom, coefficient in index.terms:
        ends = [coefficient * end for end in _atom_interval(atom, extents)]
        low += min(ends)
        high += max(ends)
    return low, high


def _atom_interval(atom: Atom, extents: Extents) -> tuple[int, int]:
    if isinstance(atom, Var):
        return 0, extents[atom.name] - 1
    low, high = interval(atom.value, extents)
    if isinstance(atom, Quotient):
        return low // atom.divisor, high // atom.divisor
    if low >= 0 and high < atom.divisor:
        return low, high
    return 0, atom.divisor - 1


def quotient(index: Index, divisor: int, extents: Extents) -> Index:
    """Return ``index // divisor``: what divides is pulled out, what cannot reach 1 is dropped."""
    whole, rest = _divide(index, divisor)
    low, high = interval(rest, extents)
    if low // divisor == high // divisor:
        return whole + Index((), low // divisor)
    return whole + Index(((Quotient(rest, divisor), 1),))


def remainder(index: Index, divisor: int, extents: Extents) -> Index:
    """Return ``index % divisor``: multiples of the divisor are dropped first."""
    _, rest = _divide(index, divisor)
    low, high = interval(rest, extents)
    if low // divisor == high // divisor:
        return rest + Index((), -(low // divisor) * divisor)
    return Index(((Remainder(rest, divisor), 1),))


def joined(index: Index) -> Index:
    """Return ``index`` with digits put together again: ``x % m + m * (x // m % n)`` is
    ``x % (m * n)``, and ``x % m + m * (x // m)`` is ``x``."""
    terms = dict(index.terms)
    for atom, coefficient in index.terms:
        if not isinstance(atom, Remainder):
            continue
        rest = Index(tuple((a, c) for a, c in terms.items() if a != atom), index.constant)
        higher = Quotient(atom.value, atom.divisor)
        if terms.get(higher) == coefficient * atom.divisor:
            rest = rest + Index(((higher, -coefficient * atom.divisor),))
            return joined(rest + atom.value.scale(coefficient))
        for other, factor in rest.terms:
            if (
                isinstance(other, Remainder)
                and other.value == Index(((higher, 1),))
                and factor == coefficient * atom.divisor
            ):
                whole = Remainder(atom.value, atom.divisor * other.divisor)
                digits = Index(((other, -factor), (whole, coefficient)))
                return joined(rest + digits)
    return index


def _divide(index: Index, divisor: int) -> tuple[Index, Index]:
    whole = tuple((a, c // divisor) for a, c in index.terms if c % divisor == 0)
    rest = tuple((a, c) for a, c in index.terms if c % divisor)
    return (
        Index(whole, index.constant // divisor),
        Index(rest, index.constant % divisor),
    )


def substitute(index: Index, definitions: Mapping[str, Index], extents: Extents) -> Index:
    """Replace axes by their definitions, again and again until none is left, simplifying."""
    result = Index((), index.constant)
    for atom, coefficient in index.terms:
        result = result + _substitute_atom(atom, definitions, extents).scale(coefficient)
    return result


def _substitute_atom(atom: Atom, definitions: Mapping[str, Index], extents: Extents) -> Index:
    if isinstance(atom, Var):
        if atom.name in definitions:
            return substitute(definitions[atom.name], definitions, extents)
        return Index(((atom, 1),))
    value = substitute(atom.value, definitions, extents)
    if isinstance(atom, Quotient):
        return quotient(value, atom.divisor, extents)
    return remainder(value, atom.divisor, extents)
