"""Schedules as JSON: both ways, and every kind of damage refused by name."""

import json

import pytest

from autosched.te import operators
from search_space.rules import sketches
from search_space.schedule import BadSchedule, Schedule
from search_space.sketch import fill
from search_space.steps import Bind, Open, Split, Tile
from search_space.target import load

H200 = load("h200")


def test_every_sketch_goes_through_json_and_back() -> None:
    workload = operators.matmul(32, 64, 4096, dtype="float16")
    for sketch in sketches(workload, H200):
        schedule = fill(sketch, {c.name: c.domain[0] for c in sketch.choices})
        again = Schedule.from_json(schedule.to_json())
        assert again == schedule
        assert again.to_json() == schedule.to_json()
        assert (again.sketch, again.choices) == (schedule.sketch, schedule.choices)


def test_where_a_schedule_came_from_is_no_part_of_it() -> None:
    assert Schedule((Split("i", "a", "b", 2),), "x", {"t": 1}) == Schedule(
        (Split("i", "a", "b", 2),), "y"
    )


def test_open_choices_make_no_schedule() -> None:
    with pytest.raises(BadSchedule, match=r"no open choices, this one has \['tile'\]"):
        Schedule((Split("i", "a", "b", Open("tile")),))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a schedule is an object with a list of 'steps'"),
        ('{"steps": 3}', "a schedule is an object with a list of 'steps'"),
        ('{"steps": [3]}', "a step is [name, fields], not '3'"),
        ('{"steps": [["Explode", {}]]}', "step 'Explode' is not known; known: Split"),
        ('{"steps": [["Split", {"axes": 1}]]}', "Split has no field 'axes'; it has axis"),
        ('{"steps": [["Split", {}]]}', "Split: "),
        ('{"steps": [["Warps", {"count": "4"}]]}', "Warps.count is Int, not '4'"),
        ('{"steps": [["Warps", {"count": true}]]}', "Warps.count is Int, not 'True'"),
        ('{"steps": [["Warps", {"count": -1}]]}', "Warps.count is Int, not '-1'"),
        ('{"steps": [["Warps", {"count": 1e3}]]}', "Warps.count is Int, not '1000.0'"),
        ('{"steps": [["Unroll", {"axis": "k; import os"}]]}', "Unroll.axis is str, not"),
        ('{"steps": [["Unroll", {"axis": "\\u212a"}]]}', "Unroll.axis is str, not"),
        ('{"steps": [["Guard", {"axis": "i", "mode": "none"}]]}', "Guard.mode is Literal"),
        ('{"steps": [["Bind", {"axes": ["i", 3]}]]}', "Bind.axes is tuple[str, ...], not"),
        ('{"steps": [], "choices": {"a": 1.5}}', "'choices' maps names to integers"),
        ('{"steps": [], "choices": {"a": -1}}', "'choices' maps names to integers"),
        ('{"steps": [], "choices": {"a": 9999999999999}}', "'choices' maps names to integers"),
        ('{"steps": [], "choices": {"a;b": 1}}', "'choices' maps names to integers"),
        ('{"steps": [], "choices": [1]}', "'choices' maps names to integers"),
        ('{"steps": [], "sketch": 7}', "'sketch' is a name"),
        ('{"steps": [], "sketch": "\\u001b[2J"}', "'sketch' is a name, not '\\x1b[2J'"),
        ('{"steps": [["Warps", {"count": 1%s}]]}' % ("0" * 40), "Warps.count is Int, not '1000"),
        ('{"steps": [["Warps", {"count": 1%s}]]}' % ("0" * 9000), "not JSON"),
        ('{"steps": [["Unroll", {"axis": "import"}]]}', "Unroll.axis is str, not 'import'"),
        ('{"steps": [["Unroll", {"axis": "eval"}]]}', "Unroll.axis is str, not 'eval'"),
        ('{"steps": [["Unroll", {"axis": "tl"}]]}', "Unroll.axis is str, not 'tl'"),
        ('{"steps": [["Unroll", {"axis": "%s"}]]}' % ("a" * 64), "Unroll.axis is str, not 'aaa"),
        ('{"steps": [["Unroll", {"axis": ["k"]}]]}', "Unroll.axis is str, not"),
        ('{"steps": [["Pack", {"order": [0, 16]}]]}', "Pack.order is tuple[int, ...], not"),
    ],
)
def test_what_is_no_schedule_is_refused_by_name(text: str, sentence: str) -> None:
    with pytest.raises(BadSchedule) as refusal:
        Schedule.from_json(text)
    assert sentence in str(refusal.value)


def test_the_json_form_is_canonical() -> None:
    schedule = Schedule((Bind(("i",)), Tile((("j",),))))
    data = json.loads(schedule.to_json())
    assert data["steps"][0] == ["Bind", {"axes": ["i"], "swizzle": 1, "nest": 0}]
    assert json.dumps(data, sort_keys=True, separators=(",", ":")) == schedule.to_json()
