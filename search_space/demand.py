"""What a step may ask of a nest before it changes it; each refusal names the step and the fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from search_space.nest import Nest
from search_space.refusal import refuse
from search_space.steps import Step
from search_space.workload import Tensor


def need_free(nest: Nest, step: Step, axis: str) -> None:
    """Refuse unless ``axis`` is a leaf that no decision has been taken about."""
    if axis not in nest.extents:
        refuse(step, f"there is no axis {axis!r}; leaves: {', '.join(nest.leaves)}")
    if axis in nest.definitions:
        refuse(step, f"{axis!r} has already been split or fused")
    if axis in nest.grid:
        refuse(step, f"{axis!r} is bound to the grid")
    if axis in nest.tile_axes:
        refuse(step, f"{axis!r} is held in a block")


def need_fresh(nest: Nest, step: Step, *names: str) -> None:
    """Refuse names that something of the nest bears already, or that are given twice."""
    for name in names:
        if name in nest.extents or name in nest.tensor:
            refuse(step, f"the name {name!r} is taken")
    if len(set(names)) < len(names):
        refuse(step, f"the name {names[0]!r} is given twice")


def integer(step: Step, field: str, value: Any) -> int:
    """Return the value of a field; refuse what is no integer of at least 1."""
    if type(value) is not int or value < 1:
        refuse(step, f"{field} is {value!r}; want an integer of at least 1")
    return int(value)


def names_of(tensors: Sequence[Tensor]) -> str:
    """Return the names of ``tensors`` for a sentence."""
    return ", ".join(tensor.name for tensor in tensors)
