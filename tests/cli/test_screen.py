"""Tests of what a run looks like: the view that events make, live and line by line."""

import io
import re

from rich.console import Console

from autosched.cli.output import Output
from autosched.cli.screen import View, advance, screen, table
from autosched.cli.suite_screen import SuiteView
from autosched.cli.suite_screen import table as suite_table
from autosched.te.operators import matmul
from autosched.tune.candidate import Candidate
from autosched.tune.events import (
    FinalsStarted,
    LibraryTimed,
    Progress,
    RoundDone,
    RoundStarted,
    RunDone,
    RunStarted,
    TrialDone,
)
from autosched.tune.suite import Bounds
from measure.measurement import Timed, Timing
from measure.service import DeviceInfo
from search_space.rules import sketches
from search_space.target import load

SKETCH = sketches(matmul(64, 64, 64, dtype="float16"), load("h200"))[0]
CANDIDATE = Candidate(SKETCH, {}, 0.0, "random")
TIMED = Timed(Timing(20.0, 19.0, 21.0, (20.0,)), None, None, 0.5, 0.01)
PROGRESS = Progress(
    trials=40,
    total=320,
    built=38,
    failures={"compile": 2, "timeout": 1},
    incumbent_us=20.0,
    elapsed_s=4.0,
    trials_per_s=10.0,
    left_s=28.0,
)
EVENTS = [
    RunStarted("matmul 64x64x64 float16 nn", DeviceInfo("cuda", "NVIDIA H200", "h200"), 320),
    RoundStarted(0, 32),
    TrialDone(3, CANDIDATE, TIMED, True, PROGRESS),
    RoundDone(0, PROGRESS),
    FinalsStarted(8),
    RunDone("trials", PROGRESS),
]


def drawn(view: View) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=120).print(table(view))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_view_before_anything_happened():
    assert drawn(View()) == ["  on , starting"]


def test_the_view_after_a_round():
    view = View(library_us=22.0)
    for event in EVENTS[:4]:
        view = advance(view, event)
    label, *rows = drawn(view)
    assert label == "matmul 64x64x64 float16 nn  on NVIDIA H200, searching"
    assert [re.split(r" {2,}", row) for row in rows] == [
        ["trials", "40 of 320, round 0, 28 s left"],
        ["built", "38, at 10.0 candidates/s"],
        ["failed", "2 compile, 1 timeout"],
        ["best", "20 us (1.100 of the library's speed), contraction.pointer, trial 3"],
        ["last round", "0, best 20 us (1.100 of the library's speed) at 40 trials"],
    ]


def test_line_by_line_where_nobody_watches(capsys):
    with screen(Output("table", quiet=False, verbose=False), None) as listen:
        for event in EVENTS:
            listen(event)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "matmul 64x64x64 float16 nn on NVIDIA H200: 320 trials",
        "round 0: 40/320 trials, best 20 us, failed 3 (2 compile, 1 timeout), "
        "10.0 candidates/s, 28 s left",
        "measuring the best 8 again, in turns",
    ]


def test_quiet_says_nothing(capsys):
    with screen(Output("table", quiet=True, verbose=False), None) as listen:
        for event in EVENTS:
            listen(event)
    assert capsys.readouterr() == ("", "")


def test_tasks_side_by_side():
    view = SuiteView(("one", "two", "three"), Bounds(96, 60.0), "gradient", 100.0)
    for event in [EVENTS[0], LibraryTimed(22.0), *EVENTS[1:4]]:
        view.advance(1, event)
    view.advance(2, EVENTS[0])
    stream = io.StringIO()
    Console(file=stream, width=120).print(suite_table(view, 107.0))
    assert [re.split(r" {2,}", line.rstrip()) for line in stream.getvalue().splitlines()] == [
        ["gradient: turn 1, 40 of 96 trials, 7 s of 1:00"],
        ["workload", "turns", "trials", "failed", "best", "state"],
        ["one", "0", "0", "0", "-", "not started"],
        ["two", "1", "40", "3", "20 us (1.100 of the library's speed)", "searching"],
        ["three", "0", "0", "0", "-", "searching"],
    ]
    assert drawn(view.views[0]) == ["  on , not started"]
