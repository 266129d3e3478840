"""Search without a model: legal candidates drawn at random. The baseline of every other search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from autosched.tune.candidate import Candidate, Key
from autosched.tune.strategy import Told
from search_space.sample import random_choices
from search_space.sketch import Sketch
from search_space.target import Target

#: Draws in a row that bring nothing new before the space counts as exhausted.
STALE_DRAWS = 200


class RandomSearch:
    """Draws a sketch, then legal choices of it, uniformly; learns nothing."""

    name = "random"

    def __init__(self, sketches: Sequence[Sketch], target: Target, seed: int) -> None:
        self.sketches: Sequence[Sketch] = tuple(sketches)
        self.settings: Mapping[str, str | int | None] = {"seed": seed}
        self._open = list(sketches)
        self._target = target
        self._rng = Random(seed)
        self._proposed: set[Key] = set()

    def ask(self, count: int) -> list[Candidate]:
        """Return up to ``count`` new candidates; fewer when the space is nearly exhausted."""
        found: list[Candidate] = []
        stale = 0
        while len(found) < count and stale < STALE_DRAWS and self._open:
            candidate = self._draw()
            if candidate is None or candidate.key in self._proposed:
                stale += 1
                continue
            self._proposed.add(candidate.key)
            found.append(candidate)
            stale = 0
        return found

    def tell(self, told: Sequence[Told]) -> None:
        """Ignore what came of earlier candidates."""

    def _draw(self) -> Candidate | None:
        sketch = self._rng.choice(self._open)
        choices = random_choices(sketch, self._target, self._rng)
        if choices is None:
            self._open.remove(sketch)
            return None
        return Candidate(sketch, choices, 0.0, "random")
