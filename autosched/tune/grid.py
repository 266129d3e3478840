"""The choices of one sketch as whole numbers, and legal moves of many of them at once.

A *place* is a row of positions in the domains; its *code* is one integer in mixed radix, so that
sets of candidates are sets of integers. Knows no scores. The moves are those of
``search_space.sample``, made on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from search_space.limits import violations
from search_space.sample import JUMP, MUTATE_MORE, MUTATION_WEIGHTS, smallest_choices
from search_space.sketch import Sketch
from search_space.target import Target

Codes = NDArray[np.int64]
_Move = Callable[[Codes, NDArray[np.int64]], Codes]

#: Spaces up to this size are looked at whole; of larger ones this many draws are.
WHOLE = 300_000
#: Attempts at a legal move before the parent stands.
ATTEMPTS = 4
#: Draws for each legal candidate wanted, before a sketch counts as having few.
OVERDRAW = 16


class Grid:
    """One sketch's space on one target."""

    def __init__(self, sketch: Sketch, target: Target) -> None:
        self.sketch = sketch
        self._target = target
        self._domains = [np.array(choice.domain, np.int64) for choice in sketch.choices]
        self._sizes = np.array([len(domain) for domain in self._domains], np.int64)
        self._radix = np.concatenate([[1], np.cumprod(self._sizes[:-1])]).astype(np.int64)
        weights = [MUTATION_WEIGHTS.get(c.name, 1.0) * (len(c.domain) > 1) for c in sketch.choices]
        self._weights = np.array(weights) / (sum(weights) or 1.0)

    def values(self, codes: Codes) -> NDArray[np.int64]:
        """Return the choices [codes, choices] in ``sketch.names`` order."""
        places = self._places(codes)
        held = [domain[places[:, n]] for n, domain in enumerate(self._domains)]
        return np.stack(held, axis=1)

    def values_of(self, codes: Codes, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the choices called ``names`` [codes, names]; one that is not open is 0."""
        held, columns = self.values(codes), {n: c for c, n in enumerate(self.sketch.names)}
        absent = np.zeros(len(codes), np.int64)
        picked = [held[:, columns[name]] if name in columns else absent for name in names]
        return np.stack(picked, axis=1)

    def choices(self, code: int) -> dict[str, int]:
        """Return the choices of one code by name."""
        row = self.values(np.array([code], np.int64))[0]
        return dict(zip(self.sketch.names, map(int, row), strict=True))

    def code(self, choices: dict[str, int]) -> int:
        """Return the code of choices that lie in the domains."""
        places = [c.domain.index(choices[c.name]) for c in self.sketch.choices]
        return int(np.dot(places, self._radix))

    def legal(self, codes: Codes) -> Codes:
        """Return the codes that ``limits`` accepts, order kept."""
        return codes[self._is_legal(codes)]

    @property
    def whole(self) -> bool:
        """Whether ``survey`` returns every legal code."""
        return self.sketch.size <= WHOLE

    def survey(self, rng: Generator) -> Codes:
        """Return every legal code of a small space, or those of ``WHOLE`` draws of a large one."""
        if self.whole:
            return self.legal(np.arange(self.sketch.size, dtype=np.int64))
        return self.legal(np.unique(self._draw(WHOLE, rng)))

    def random(self, count: int, rng: Generator) -> Codes:
        """Return up to ``count`` different legal codes, drawn uniformly; none if none are found."""
        drawn = self.legal(self._draw(count * OVERDRAW, rng))
        _, first = np.unique(drawn, return_index=True)
        found = drawn[np.sort(first)][:count]
        if len(found) or not count:
            return found
        return self._smallest

    def mutate(self, codes: Codes, rng: Generator) -> Codes:
        """Change one or a few choices of each, mostly to a neighbour; parents where illegal."""
        return self._until_legal(codes, lambda parents, _: self.changed(parents, rng))

    def changed(self, codes: Codes, rng: Generator) -> Codes:
        """Return what ``mutate`` would try first, legal or not."""
        return self._mutated(codes, rng)

    def mixed(self, first: Codes, second: Codes, rng: Generator) -> Codes:
        """Return what ``crossover`` would try first, legal or not."""
        a, b = self._places(first), self._places(second)
        return np.asarray(np.where(rng.random(a.shape) < 0.5, a, b) @ self._radix)

    def crossover(self, first: Codes, second: Codes, rng: Generator) -> Codes:
        """Take each choice from either parent; the first parent where the child is illegal."""
        return self._until_legal(
            first, lambda parents, rows: self.mixed(parents, second[rows], rng)
        )

    def neighbours(self, code: int) -> Codes:
        """Return every legal change of one choice to the next value below or above, in the order
        of the choices."""
        place = self._places(np.array([code], np.int64))[0]
        beside = [
            code + step * int(radix)
            for at, size, radix in zip(place.tolist(), self._sizes, self._radix, strict=True)
            for step in (-1, 1)
            if 0 <= at + step < size
        ]
        return self.legal(np.array(beside, np.int64))

    @cached_property
    def _smallest(self) -> Codes:
        """The first legal code counting up from the smallest values, if there is one."""
        smallest = smallest_choices(self.sketch, self._target)
        return np.array([] if smallest is None else [self.code(smallest)], np.int64)

    def _places(self, codes: Codes) -> NDArray[np.int64]:
        return np.asarray(codes[:, None] // self._radix % self._sizes)

    def _is_legal(self, codes: Codes) -> NDArray[np.bool_]:
        if not len(codes):
            return np.zeros(0, np.bool_)
        return np.asarray(~violations(self.sketch, self.values(codes), self._target))

    def _draw(self, count: int, rng: Generator) -> Codes:
        return np.asarray(rng.integers(0, self._sizes, (count, len(self._sizes))) @ self._radix)

    def _until_legal(self, codes: Codes, move: _Move) -> Codes:
        moved, rows = codes.copy(), np.arange(len(codes))
        for _ in range(ATTEMPTS):
            if not len(rows):
                break
            tried = move(codes[rows], rows)
            good = self._is_legal(tried)
            moved[rows[good]] = tried[good]
            rows = rows[~good]
        return moved

    def _mutated(self, codes: Codes, rng: Generator) -> Codes:
        places, rows = self._places(codes), np.arange(len(codes))
        while len(rows) and self._weights.any():
            column = rng.choice(len(self._sizes), len(rows), p=self._weights)
            places[rows, column] = self._moved(places[rows, column], self._sizes[column], rng)
            rows = rows[rng.random(len(rows)) < MUTATE_MORE]
        return np.asarray(places @ self._radix)

    @staticmethod
    def _moved(
        places: NDArray[np.int64], sizes: NDArray[np.int64], rng: Generator
    ) -> NDArray[np.int64]:
        step = np.where(rng.random(len(places)) < 0.5, -1, 1)
        beside = places + step
        turned = np.where((beside < 0) | (beside >= sizes), places - step, beside)
        return np.where(rng.random(len(places)) < JUMP, rng.integers(0, sizes), turned)
