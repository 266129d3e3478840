from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from autosched.bench.contest import Contest, Outcome
from autosched.bench.row import Interval
from autosched.bench.search_compare import (
    GUIDED,
    RANDOM,
    Search,
    best_so_far,
    search_compare,
    summarize,
    table,
    write,
)
from search_space.expr import Affine, Read
from search_space.program import Buffer, Program
from search_space.workload import Axis, Stage, Tensor, Workload

COPY = Workload(
    axes=(Axis("i", 4, "spatial"),),
    inputs=(Tensor("A", (4,), "float32"),),
    intermediates=(),
    output=Tensor("C", (4,), "float32"),
    stages=(Stage("C", (Affine.axis("i"),), Read("A", (Affine.axis("i"),))),),
    label="copy",
)


def program(version: int) -> Program:
    return Program((Buffer("C", (4,), (1,), "float32", "output"),), (), version)


CURVES = {
    (GUIDED, 0): (20.0, None, 10.0, 11.0),
    (RANDOM, 0): (30.0, 12.0, 12.5, None),
    (GUIDED, 1): (None, 9.0, 9.5, 9.0),
    (RANDOM, 1): (40.0, 40.0, 40.0, 8.0),
}


def run_search(strategy: str, seed: int) -> Search:
    curve = best_so_far(CURVES[strategy, seed])
    return Search(strategy, seed, curve, 1.0, program(seed * 2 + (strategy == RANDOM)))


def referee(contest: Contest) -> Outcome:
    times = {"guided-0": 10.0, "random-0": 12.0, "guided-1": 9.0, "random-1": 9.0, "torch": 11.0}
    assert list(contest.programs) == ["guided-0", "random-0", "guided-1", "random-1"]
    return Outcome(times_us={n: Interval(t, t, t) for n, t in times.items()})


def test_a_failed_trial_does_not_move_the_curve() -> None:
    assert best_so_far([None, 5.0, None, 6.0, 4.0]) == (None, 5.0, 5.0, 5.0, 4.0)


def test_winners_are_compared_pairwise_by_seed() -> None:
    data = search_compare(COPY, run_search, referee, [0, 1])
    summary = data["summary"]
    assert summary["final_ratios"] == [1.2, 1.0]
    assert summary["final_ratio"] == pytest.approx(math.sqrt(1.2))
    assert summary["final_ratio_low"] == pytest.approx(1.0)
    assert summary["final_ratio_high"] == pytest.approx(1.2)
    assert summary["catch_up_trials"] == [3, None]
    assert summary["curve"][-1] == {
        "trials": 4,
        GUIDED: [9.25, 9.5, 9.75],
        RANDOM: [9.0, 10.0, 11.0],
    }


def test_a_search_without_a_winner_leaves_its_pair_out() -> None:
    searches = [
        Search(GUIDED, 0, (1.0,), 1.0, program(1)),
        Search(RANDOM, 0, (None,), 1.0, None),
    ]
    summary = summarize(searches, {"guided-0": 1.0})
    assert summary["final_ratio"] is None
    assert summary["catch_up_trials"] == [1]
    assert summary["curve"] == [{"trials": 1, GUIDED: [1.0, 1.0, 1.0], RANDOM: None}]


def test_the_table_names_both_strategies() -> None:
    text = table(search_compare(COPY, run_search, referee, [0, 1]))
    assert "geometric mean of 2 seeds" in text
    assert "**1.095** [1.000, 1.200]" in text
    assert "| 0 | 10 | 12 | 3 |" in text
    assert "| 1 | 9 | 9 | never |" in text


def test_comparisons_are_written_with_their_origin(tmp_path: Path) -> None:
    data = search_compare(COPY, run_search, referee, [0, 1])
    origin = {
        "machine": {"gpu": "NVIDIA H200"},
        "versions": {"triton": "3.6.0"},
        "date": "2026-01-01",
        "command": "autosched bench --search",
    }
    write(tmp_path / "deep" / "search-h200.json", [data], origin)
    held = json.loads((tmp_path / "deep" / "search-h200.json").read_text())
    assert held == {**origin, "comparisons": [json.loads(json.dumps(data))]}
    text = (tmp_path / "deep" / "search-h200.md").read_text()
    assert "    autosched bench --search    # 2026-01-01" in text
    assert text.endswith(table(data))
