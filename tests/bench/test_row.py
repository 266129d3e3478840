from __future__ import annotations

import math

import pytest

from autosched.bench.row import Interval, Row, geometric_mean


def make(**changes: object) -> Row:
    values: dict[str, object] = {
        "workload": "P01",
        "label": "matmul m=2",
        "key": "0" * 16,
        "times_us": {"ours": Interval(10.0, 9.0, 11.0), "torch": Interval(12.0, 11.5, 12.5)},
        "ratios": {"torch": Interval(1.2, 1.1, 1.3)},
        "roofline_us": 5.0,
        "operations": 10**9,
    }
    return Row(**(values | changes))  # type: ignore[arg-type]


def test_a_row_has_a_column_per_entrant_whether_it_ran_or_not() -> None:
    data = make().to_data(("torch", "inductor"))
    assert data["ours_us"] == 10.0
    assert (data["torch_us"], data["torch_us_low"], data["torch_us_high"]) == (12.0, 11.5, 12.5)
    assert data["ratio_torch"] == 1.2
    assert data["inductor_us"] is None
    assert data["ratio_inductor"] is None


def test_rates_follow_from_the_median() -> None:
    data = make().to_data(())
    assert data["tflops"] == 100.0  # 10^9 operations in 10 us
    assert data["roofline_share"] == 0.5


def test_a_row_without_a_time_has_no_rates() -> None:
    data = make(times_us={}, ratios={}, notes=("nothing compiled",)).to_data(("torch",))
    assert data["ours_us"] is None
    assert data["tflops"] is None
    assert data["roofline_share"] is None
    assert data["notes"] == ["nothing compiled"]


def test_host_costs_have_columns_of_their_own() -> None:
    assert make(host_us={"ours": 3.1234567}).to_data(())["ours_host_us"] == 3.1235


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([]) is None
    assert math.isclose(Interval(1, 2, 3).scaled(2).high, 6)
