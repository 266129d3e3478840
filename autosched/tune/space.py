"""The grids of a search, and what it has proposed of them. Scores nothing and decides little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import contains

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autosched.tune.candidate import Candidate, Key, Origin
from autosched.tune.grid import Codes, Grid
from autosched.tune.population import Population
from autosched.tune.shortlist import BLOCK
from search_space.sketch import Sketch

#: Turns of drawing before what is left is looked up instead.
TURNS = 4

#: The index of a grid, and a code of it.
Place = tuple[int, int]
#: A sketch's name and the choices that are BLOCK, 0 where one is not open.
Block = tuple[str, tuple[int, ...]]


class Space:
    """Several grids as one space. No schedule is proposed of it twice."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.grids = tuple(grids)
        self._index = {grid.sketch.name: n for n, grid in enumerate(self.grids)}
        self._proposed: set[Place] = set()
        #: Grids and codes [places, 2] of the whole space, once wanted; the first are proposed.
        self._rest: NDArray[np.int64] | None = None
        self._passed = 0

    def __len__(self) -> int:
        """How many schedules were proposed."""
        return len(self._proposed)

    @property
    def sketches(self) -> Sequence[Sketch]:
        """Where candidates come from."""
        return [grid.sketch for grid in self.grids]

    def place(self, candidate: Candidate) -> Place:
        """Return where a candidate of these grids lies."""
        n = self._index[candidate.sketch.name]
        return n, self.grids[n].code(dict(candidate.choices))

    def place_of(self, key: Key) -> Place | None:
        """Return where the schedule with this key lies; None if it is not legal here."""
        name, values = key
        if name not in self._index:
            return None
        grid = self.grids[self._index[name]]
        domains = [choice.domain for choice in grid.sketch.choices]
        if len(values) != len(domains) or not all(map(contains, domains, values)):
            return None
        code = grid.code(dict(zip(grid.sketch.names, values, strict=True)))
        return (self._index[name], code) if len(grid.legal(np.array([code]))) else None

    def is_new(self, place: Place) -> bool:
        """Whether the schedule at ``place`` was not proposed yet."""
        return place not in self._proposed

    def propose(
        self, places: Iterable[Place], origin: Origin, score: float = 0.0
    ) -> list[Candidate]:
        """Return the candidates at ``places`` that are new, all with the same score."""
        found: list[Candidate] = []
        for place in places:
            if place not in self._proposed:
                self._proposed.add(place)
                n, code = place
                grid = self.grids[n]
                found.append(Candidate(grid.sketch, grid.choices(code), score, origin))
        return found

    def take(
        self,
        ranked: Population,
        count: int,
        origin: Origin,
        most_alike: int | None = None,
        alike: Iterable[Candidate] = (),
    ) -> list[Candidate]:
        """Propose the first ``count`` that are new.

        At most ``most_alike`` have the same sketch and block; ``alike`` are candidates that count
        towards that bound already.
        """
        found: list[Candidate] = []
        seen = Counter(_block(candidate) for candidate in alike)
        blocks = self._blocks(ranked) if most_alike is not None else None
        for row, place in enumerate(ranked.places):
            if len(found) >= count:
                break
            if place in self._proposed:
                continue
            if blocks is not None and most_alike is not None:
                if seen[blocks[row]] >= most_alike:
                    continue
                seen[blocks[row]] += 1
            found += self.propose([place], origin, float(ranked.scores[row]))
        return found

    def _blocks(self, population: Population) -> list[Block]:
        """Return sketch and block of each candidate."""
        held = np.zeros((len(population), len(BLOCK)), np.int64)
        for n, grid in enumerate(self.grids):
            here = population.grids == n
            held[here] = grid.values_of(population.codes[here], BLOCK)
        names = [self.grids[n].sketch.name for n in population.grids.tolist()]
        return list(zip(names, map(tuple, held.tolist()), strict=True))

    def draw(self, count: int, rng: Generator) -> list[Place]:
        """Return up to ``count`` different legal places that are new: a grid is drawn uniformly,
        then a code of it.

        Where draws bring nothing new, the rest comes from ``rest``.
        """
        found: dict[Place, None] = {}
        for _ in range(TURNS):
            missing = count - len(found)
            if missing <= 0:
                break
            order = rng.integers(0, len(self.grids), 2 * missing)
            drawn = [
                iter(grid.random(int((order == n).sum()), rng).tolist())
                for n, grid in enumerate(self.grids)
            ]
            held = ((n, next(drawn[n], None)) for n in order.tolist())
            places = [(n, code) for n, code in held if code is not None]
            found |= dict.fromkeys(place for place in places if self.is_new(place))
        if len(found) < count:
            found |= dict.fromkeys(self.rest(count - len(found), rng, found))
        return list(found)[:count]

    def rest(self, count: int, rng: Generator, barred: dict[Place, None]) -> list[Place]:
        """Return up to ``count`` places that are new and not ``barred``, in an order drawn once.

        Of grids that can be looked at whole, all that is left is found sooner or later.
        """
        if self._rest is None:
            self._rest = rng.permutation(self._everything(rng))
        rows = self._rest
        while self._passed < len(rows) and not self.is_new(_place(rows[self._passed])):
            self._passed += 1
        left = map(_place, rows[self._passed :])
        new = (place for place in left if self.is_new(place) and place not in barred)
        return list(islice(new, count))

    def _everything(self, rng: Generator) -> NDArray[np.int64]:
        """Return grids and codes [places, 2] of all that surveys find."""
        codes = [grid.survey(rng) for grid in self.grids]
        index = np.repeat(np.arange(len(codes)), [len(held) for held in codes])
        return np.stack([index, np.concatenate(codes)], axis=1)


def codes_of(places: Sequence[Place], grids: int) -> list[Codes]:
    """Return the codes of ``places`` grid by grid, order kept."""
    return [np.array([code for m, code in places if m == n], np.int64) for n in range(grids)]


def _place(row: NDArray[np.int64]) -> Place:
    return int(row[0]), int(row[1])


def _block(candidate: Candidate) -> Block:
    held = candidate.choices
    return candidate.sketch.name, tuple(held.get(name, 0) for name in BLOCK)
