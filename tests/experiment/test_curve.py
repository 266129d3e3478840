"""Curves of runs: what was best after so many trials, and at a moment of the clock."""

import pytest

from autosched.experiment.curve import Curve
from autosched.experiment.folder import RunName

INF = float("inf")


def trial(us: float | None, at_s: float, **more: object) -> dict[str, object]:
    failure = None if us else "compile"
    return {
        "kind": "trial",
        "us": us,
        "failure": failure,
        "quarantined": False,
        "at_s": at_s,
    } | more


LINES = [
    {"kind": "run", "workload": "a key", "optimum_us": 10.0, "roof_us": 5.0},
    trial(None, 1.0),
    trial(20.0, 4.0),
    trial(8.0, 3.0, quarantined=True),
    trial(15.0, 2.0),
    trial(10.2, 6.0),
    {"kind": "stop", "reason": "trials", "at_s": 6.5},
]
CURVE = Curve.of(RunName("here", "ours", 0), LINES)


def test_best_so_far_is_over_the_best_known_and_knows_no_disturbed_time() -> None:
    assert CURVE.ratios.tolist() == pytest.approx([INF, 2.0, 2.0, 1.5, 1.02])
    assert CURVE.failures == {"compile": 1}


def test_after_the_end_a_run_stays_where_it_was() -> None:
    assert CURVE.after([0, 1, 2, 5, 99]).tolist() == pytest.approx([INF, INF, 2.0, 1.02, 1.02])


def test_a_moment_sees_what_was_done_by_then_in_whatever_order() -> None:
    assert CURVE.at([0.5, 2.0, 3.9, 4.0, 6.0]).tolist() == pytest.approx([INF, 1.5, 1.5, 1.5, 1.02])


def test_reaching_is_by_trials_and_by_seconds() -> None:
    assert CURVE.reach(0.5) == (4.0, 2.0)
    assert CURVE.reach(0.03) == (5.0, 6.0)
    assert CURVE.reach(0.01) == (INF, INF)
