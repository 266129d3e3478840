"""Sketch rules: small functions from a workload to the sketches that apply, by structure alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from search_space.expr import reads
from search_space.rules.box import box_sketches
from search_space.rules.contraction import contraction_sketches
from search_space.rules.direct import direct_sketches
from search_space.rules.elementwise import elementwise_sketches
from search_space.rules.flat import flat_sketches
from search_space.rules.gaps import filled
from search_space.rules.gather import gather_sketches
from search_space.rules.reduction import reduction_sketches
from search_space.rules.whole import whole_sketches
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload

__all__ = ["NoSketch", "sketches"]


class NoSketch(ValueError):
    """No rule applies; the message says why, rule by rule, and what comes near and would do."""


Rule = Callable[[Workload, Target], tuple[Sketch, ...] | str]

#: Every rule, by what it takes a workload for: from a workload and a target to sketches, or to a
#: sentence on why there are none.
RULES: tuple[tuple[str, Rule], ...] = (
    ("product", contraction_sketches),
    ("product", flat_sketches),
    ("product through windows", box_sketches),
    ("product through windows", gather_sketches),
    ("window tap by tap", direct_sketches),
    ("reduction", reduction_sketches),
    ("row held whole", whole_sketches),
    ("elementwise expression", elementwise_sketches),
)


def sketches(workload: Workload, target: Target) -> tuple[Sketch, ...]:
    """Return the sketches of every rule that applies.

    Raises:
        NoSketch: no rule applies.
    """
    # Rules are about the main nest; what comes before it is the same for all.
    main = workload if workload.elsewhere is None else replace(workload, elsewhere=None)
    found: list[Sketch] = []
    reasons: dict[str, list[str]] = {}
    for kind, rule in RULES:
        answer = rule(main, target)
        if isinstance(answer, str):
            reasons.setdefault(answer, []).append(kind)
        else:
            found.extend(answer)
    if not found:
        said = "; ".join(
            f"as {' or '.join(dict.fromkeys(k))}: {reason}" for reason, k in reasons.items()
        )
        raise NoSketch(f"no schedule is known for this computation, {said}. {nearest(workload)}")
    if workload.elsewhere is not None:
        return tuple(filled(sketch, workload) for sketch in found)
    return tuple(found)


def nearest(workload: Workload) -> str:
    """Say what comes near to a workload that no rule covers, and is covered."""
    stages = workload.stages
    if sum(stage.reducer is not None for stage in stages) > 1:
        return "Each reduction stated as a computation of its own is covered."
    for read in (read for stage in stages for read in reads(stage.value)):
        axes = [name for form in read.index for name in form.axes]
        twice = next((name for name in axes if axes.count(name) > 1), None)
        if twice:
            return (
                f"With the positions of {read.tensor!r} along {twice!r} declared as one dimension, "
                "its stride the sum of theirs, it is covered."
            )
    if any(form.single is None for form in stages[-1].index):
        return "Stored at plain axes, into a view of the output with their strides, it is covered."
    return (
        "Covered are sums of products of two tensors, sums and maxima of elementwise expressions, "
        "of windows too, and elementwise expressions."
    )
