"""Draw and vary legal choices of a sketch. Knows nothing of scores, models or what is wanted.

Every function returns choices that ``limits.violation`` accepts. The generator is an argument,
so equal seeds give equal draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random

from search_space.limits import violation
from search_space.sketch import Choice, Sketch
from search_space.target import Target

#: Draws before a uniform sample gives way to a search from the smallest values upwards.
DRAWS = 400
#: Combinations that search looks at before it says that there is nothing.
SEARCHED = 20_000
#: How often each choice is the one that mutates, relative to 1: tiles decide most of the time.
MUTATION_WEIGHTS: dict[str, float] = {"tile_m": 3.0, "tile_n": 3.0, "tile_k": 2.0, "stages": 2.0}
#: Chance that a mutation changes one more choice; applied again after each.
MUTATE_MORE = 0.35
#: Chance that a mutated choice goes anywhere in its domain instead of to a neighbour.
JUMP = 0.1


def random_choices(sketch: Sketch, target: Target, rng: Random) -> dict[str, int] | None:
    """Draw uniformly among legal choices; None if no legal ones are found."""
    for _ in range(DRAWS):
        drawn = {choice.name: rng.choice(choice.domain) for choice in sketch.choices}
        if violation(sketch, drawn, target) is None:
            return drawn
    return smallest_choices(sketch, target)


def smallest_choices(sketch: Sketch, target: Target) -> dict[str, int] | None:
    """Return the first legal choices counting up from the smallest values, or None."""
    domains = [sorted(choice.domain) for choice in sketch.choices]
    for values in itertools.islice(itertools.product(*domains), SEARCHED):
        choices = dict(zip(sketch.names, values, strict=True))
        if violation(sketch, choices, target) is None:
            return choices
    return None


def mutate(
    sketch: Sketch, choices: Mapping[str, int], target: Target, rng: Random
) -> dict[str, int]:
    """Change one or a few choices, mostly to a neighbour in the domain.

    Returns an equal copy of ``choices`` where no legal change was found.
    """
    open_ = [choice for choice in sketch.choices if len(choice.domain) > 1]
    for _ in range(DRAWS if open_ else 0):
        changed = dict(choices)
        for choice in _choices_to_change(open_, rng):
            changed[choice.name] = _moved(choice, changed[choice.name], rng)
        if changed != choices and violation(sketch, changed, target) is None:
            return changed
    return dict(choices)


def crossover(
    sketch: Sketch,
    a: Mapping[str, int],
    b: Mapping[str, int],
    target: Target,
    rng: Random,
) -> dict[str, int]:
    """Take each choice from either parent; a copy of ``a`` where no legal child was found."""
    differing = sum(a[name] != b[name] for name in sketch.names)
    for _ in range(min(DRAWS, 2 ** (differing + 2))):
        child = {name: (a if rng.random() < 0.5 else b)[name] for name in sketch.names}
        if violation(sketch, child, target) is None:
            return child
    return dict(a)


def neighbours(sketch: Sketch, choices: Mapping[str, int], target: Target) -> list[dict[str, int]]:
    """Return every legal change of one choice to the next value below or above in its domain."""
    found = []
    for choice in sketch.choices:
        at = choice.domain.index(choices[choice.name])
        for beside in (at - 1, at + 1):
            if 0 <= beside < len(choice.domain):
                changed = {**choices, choice.name: choice.domain[beside]}
                if violation(sketch, changed, target) is None:
                    found.append(changed)
    return found


def _choices_to_change(open_: list[Choice], rng: Random) -> list[Choice]:
    weights = [MUTATION_WEIGHTS.get(choice.name, 1.0) for choice in open_]
    picked = rng.choices(open_, weights)
    while rng.random() < MUTATE_MORE:
        picked += rng.choices(open_, weights)
    return picked


def _moved(choice: Choice, value: int, rng: Random) -> int:
    if rng.random() < JUMP:
        return rng.choice(choice.domain)
    at = choice.domain.index(value)
    beside = [n for n in (at - 1, at + 1) if 0 <= n < len(choice.domain)]
    return choice.domain[rng.choice(beside)]
