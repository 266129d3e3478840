"""Tests of how quantities and schedules are written."""

import pytest

from autosched.cli import wording
from measure.measurement import Failure
from search_space import steps
from search_space.schedule import Schedule


@pytest.mark.parametrize(
    ("value_us", "text"),
    [(0.51234, "0.5123 us"), (187.31, "187.3 us"), (1042.4, "1.042 ms"), (2.5e6, "2500 ms")],
)
def test_microseconds(value_us: float, text: str):
    assert wording.microseconds(value_us) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (8.4, "8 s"), (125, "2:05"), (3725, "1:02:05")]
)
def test_duration(seconds: float, text: str):
    assert wording.duration(seconds) == text


def test_interval():
    assert wording.interval(0.98123, 0.97, 0.991) == "0.9812 [0.97, 0.991]"
    assert wording.interval(187.31, 186.9, 188, "us") == "187.3 us [186.9, 188]"
    assert wording.interval(9.4, 9.4, 9.4, "us") == "9.4 us"


def test_census_names_the_commonest_first_and_leaves_out_zeros():
    counts = {Failure.TIMEOUT: 1, Failure.COMPILE: 3, Failure.RUNTIME: 0}
    assert wording.census(counts) == "3 compile, 1 timeout"
    assert wording.census({}) == "none"


def test_a_schedule_reads_as_the_python_that_makes_it():
    made = Schedule(
        (
            steps.Split("i", "i0", "i1", 128),
            steps.Bind(("i0", "j0"), swizzle=8),
            steps.Split("k", "k0", "k1", 64, nest=1),
        )
    )
    lines = list(wording.schedule_lines(made))
    assert lines == [
        "Split(axis='i', outer='i0', inner='i1', factor=128)",
        "Bind(axes=('i0', 'j0'), swizzle=8)",
        "Split(axis='k', outer='k0', inner='k1', factor=64, nest=1)",
    ]
    assert tuple(eval(line, vars(steps)) for line in lines) == made.steps  # noqa: S307


def test_an_open_choice_stands_as_its_name():
    step = steps.Split("i", "i0", "i1", steps.Open("tile_m"))
    assert wording.step_text(step) == "Split(axis='i', outer='i0', inner='i1', factor=tile_m)"
