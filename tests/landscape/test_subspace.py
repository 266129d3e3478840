"""Stated parts of a space."""

import pytest

from autosched.landscape.subspace import BadSubspace, narrowed
from autosched.spec import from_data
from search_space import target as targets
from search_space.rules import sketches
from search_space.sketch import fill

SPEC = {"op": "matmul", "m": 256, "n": 512, "k": 1024, "dtype": "float16"}
H200 = targets.load("h200")
SPACE = sketches(from_data("a test", SPEC).workload, H200)


def test_a_narrowed_sketch_makes_the_same_schedules() -> None:
    (part,) = narrowed(SPACE, [SPACE[1].name], {"warps": [4], "stages": [3, 4]})
    assert part.structure == SPACE[1].structure
    choices = {choice.name: choice.domain[-1] for choice in part.choices}
    assert choices["warps"] == 4
    assert fill(part, choices) == fill(SPACE[1], choices)


@pytest.mark.parametrize(
    ("names", "fixed", "fact"),
    [
        (["contraction.nowhere"], {}, "is none of this workload"),
        ([], {"wraps": [4]}, "no sketch has a choice 'wraps'"),
        ([], {"warps": [5]}, "warps=5 is in no domain"),
    ],
)
def test_what_is_not_there_is_named(
    names: list[str], fixed: dict[str, list[int]], fact: str
) -> None:
    with pytest.raises(BadSubspace, match=fact):
        narrowed(SPACE, names, fixed)
