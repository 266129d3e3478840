"""Sketch rules: small functions from a workload to the sketches that apply, by structure alone."""

from __future__ import annotations

from dataclasses import replace

from search_space.rules.box import box_sketches
from search_space.rules.contraction import contraction_sketches
from search_space.rules.gaps import filled
from search_space.rules.gather import gather_sketches
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload

__all__ = ["NoSketch", "sketches"]


class NoSketch(ValueError):
    """No rule applies; the message says why, rule by rule."""


#: Every rule: from a workload and a target to sketches, or to a sentence on why there are none.
RULES = (contraction_sketches, box_sketches, gather_sketches)


def sketches(workload: Workload, target: Target) -> tuple[Sketch, ...]:
    """Return the sketches of every rule that applies.

    Raises:
        NoSketch: no rule applies.
    """
    # Rules are about the main nest; what comes before it is the same for all.
    main = workload if workload.elsewhere is None else replace(workload, elsewhere=None)
    found: list[Sketch] = []
    reasons: list[str] = []
    for rule in RULES:
        answer = rule(main, target)
        if isinstance(answer, str):
            reasons.append(f"{rule.__name__}: {answer}")
        else:
            found.extend(answer)
    if not found:
        raise NoSketch("no schedule is known for this computation: " + "; ".join(reasons))
    if workload.elsewhere is not None:
        return tuple(filled(sketch, workload) for sketch in found)
    return tuple(found)
