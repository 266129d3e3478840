"""Stores at affine positions, and what is written where they leave nothing, in the interpreter."""

import random
from typing import Any

import pytest

from autosched.codegen.render import render
from autosched.te.convolution import BY_NAME
from measure.interpret import check
from measure.measurement import Evidence
from search_space.index import Index, Quotient, Remainder, joined, variable
from search_space.rules import sketches
from search_space.rules.gaps import NEST
from search_space.sample import random_choices
from search_space.sketch import fill
from search_space.workload import Workload

#: Transposed convolutions, and whether taps reach every element: even positions alone, all with
#: positions outside dropped, one tap a class, two taps for three classes.
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("conv_transpose2d", {"h": 4, "w": 5, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "dilation": 2,
                          "epilogue": ("bias", "relu")}, False),
    ("conv_transpose2d", {"h": 4, "w": 5, "kh": 4, "kw": 3, "stride": 2, "pad": 1,
                          "epilogue": ("bias", "relu", "residual")}, True),
    ("conv_transpose2d", {"h": 4, "w": 5, "kh": 2, "kw": 2, "stride": 2}, True),
    ("conv_transpose1d", {"l": 9, "kl": 2, "stride": 3, "layout": "NCL"}, False),
]  # fmt: skip


def assert_right(workload: Workload, schedule: Any, target: Any) -> None:
    program = render(workload, schedule, target)
    outcome = check(workload, program, 0)
    assert isinstance(outcome, Evidence), f"{workload.canonical}\n{program.source}\n{outcome}"


@pytest.mark.parametrize(("op", "how", "everywhere"), CASES)
def test_transposed_convolutions(h200, op: str, how: dict[str, Any], everywhere: bool) -> None:
    work = BY_NAME[op](n=2, ci=32, co=16, dtype="float16", **how)
    assert (work.elsewhere is None) == everywhere
    rng = random.Random(op)
    kinds: dict[str, Any] = {}
    for sketch in sketches(work, h200):
        kinds.setdefault(f"{sketch.name.split('.')[0]} {sketch.structure.split}", sketch)
    for sketch in kinds.values():
        choices = random_choices(sketch, h200, rng)
        assert choices is not None
        schedule = fill(sketch, choices)
        assert_right(work, schedule, h200)
        if not everywhere:
            # What fills is the second nest, and its kernel the first to run.
            assert any(step.nest == NEST for step in schedule.steps)
            kernels = render(work, schedule, h200).kernels
            assert kernels[0].name.endswith("_fill")


def test_digits_of_an_index_join_again() -> None:
    x = variable("x")
    tens = Index(((Quotient(x, 10), 1),))
    digits = Index(((Remainder(x, 10), 3), (Remainder(tens, 7), 30), (Quotient(x, 70), 210)))
    assert joined(digits) == x.scale(3)
    apart = Index(((Remainder(x, 10), 3), (Remainder(tens, 7), 31)))
    assert joined(apart) == apart


def test_a_dense_output_is_filled_without_divisions(h200) -> None:
    work = BY_NAME["conv_transpose2d"](
        n=2, h=4, w=5, kh=3, kw=3, ci=16, co=16, stride=2, dilation=2, dtype="float16"
    )
    sketch = sketches(work, h200)[0]
    choices = random_choices(sketch, h200, random.Random(0))
    assert choices is not None
    source = render(work, fill(sketch, choices), h200).kernels[0].source
    assert "_fill(" in source
    assert "//" not in source
    assert "%" not in source
