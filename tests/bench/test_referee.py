from __future__ import annotations

from pathlib import Path

import pytest

from autosched.bench.contest import Contest
from autosched.bench.referee import GpuReferee, outcome
from autosched.te.operators import matmul
from search_space.program import Buffer, Program

WORK = matmul(16, 16, 16, dtype="float16")
PROGRAM = Program((Buffer("C", (4,), (1,), "float32", "output"),), (), 1)


def reply(**times: list[float]) -> dict[str, object]:
    nothing: dict[str, object] = {"host_us": {}, "setup_s": {}, "failures": {}, "rel_err": {}}
    return {"times_us": {name: tuple(rounds) for name, rounds in times.items()}} | nothing


def test_ratios_are_paired_by_round() -> None:
    contest = Contest(WORK, {"ours": PROGRAM}, ("torch",))
    # Both drift by half: the medians differ by little, each pair by a fifth.
    made = outcome(contest, reply(ours=[10.0, 12.5, 15.0], torch=[12.0, 15.0, 18.0]), {})
    assert made.times_us["ours"].value == 12.5
    assert made.ratios["torch"].value == pytest.approx(1.2)
    assert made.ratios["torch"].low == pytest.approx(1.2)
    assert made.ratios["ours"].value == 1.0


def test_without_our_program_the_first_library_is_the_yardstick() -> None:
    contest = Contest(WORK, {}, ("torch", "inductor"))
    made = outcome(contest, reply(torch=[10.0], inductor=[5.0]), {})
    assert made.ratios["inductor"].value == 0.5


def test_where_the_yardstick_failed_there_are_times_but_no_ratios() -> None:
    contest = Contest(WORK, {"ours": PROGRAM}, ("torch",))
    made = outcome(contest, reply(torch=[10.0]), {"ours": "the process died of SIGSEGV"})
    assert made.times_us["torch"].value == 10.0
    assert made.ratios == {}
    assert made.failures == {"ours": "the process died of SIGSEGV"}


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("name", ["exits", "hangs", "sticky"])
def test_an_entrant_that_breaks_the_child_is_taken_out(name: str) -> None:
    contest = Contest(WORK, {"ours": PROGRAM, name: PROGRAM}, ("torch",))
    with GpuReferee(timeout_s=3.0, module="hostile_worker") as referee:
        made = referee(contest)
        assert set(made.times_us) == {"ours", "torch"}
        assert set(made.failures) == {name}
        assert made.ratios["torch"].value == 1.0


@pytest.mark.usefixtures("hostile")
def test_where_nobody_is_named_the_comparison_is_held_again_with_care() -> None:
    contest = Contest(WORK, {"ours": PROGRAM, "anonymous": PROGRAM}, ("torch",))
    with GpuReferee(module="hostile_worker") as referee:
        made = referee(contest)
    assert set(made.times_us) == {"ours", "torch"}
    assert made.failures["anonymous"].startswith("the process ended with exit code 3")


@pytest.mark.usefixtures("hostile")
def test_a_child_that_always_breaks_ends_the_comparison() -> None:
    contest = Contest(WORK, {"ours": PROGRAM, "hopeless": PROGRAM}, ("torch",))
    with GpuReferee(module="hostile_worker") as referee:
        made = referee(contest)
    assert made.times_us == {}
    assert set(made.failures) == {"ours", "hopeless", "torch"}
