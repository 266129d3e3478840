from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autosched.bench.contest import Contest, Outcome
from autosched.bench.report import BadResults
from autosched.bench.row import Interval
from autosched.bench.run import Bench, Quick, Tuning, first8_ratio, run
from autosched.runtime.served import Served
from autosched.te.operators import matmul
from search_space import target
from search_space.program import Buffer, Program
from search_space.schedule import Schedule
from search_space.workload import Workload

PROGRAM = Program((Buffer("C", (4,), (1,), "float32", "output"),), (), 1)


@dataclass(frozen=True)
class Task:
    id: str
    workload: Workload
    tags: tuple[str, ...] = ("odd",)


TASKS = [Task(name, matmul(m, 64, 64, dtype="float16")) for name, m in (("a", 16), ("b", 32))]


def served(workload: Workload) -> Served:
    return Served(workload, "tuned", "best of 2", Schedule((), "contraction.pointer"), PROGRAM, 9.0)


def referee(contest: Contest) -> Outcome:
    names = (*contest.programs, *contest.libraries)
    times = {name: Interval(10.0 + n, 10.0, 12.0) for n, name in enumerate(names)}
    return Outcome(
        times_us=times,
        ratios={name: Interval(t.value / 10.0, 1.0, 1.2) for name, t in times.items()},
        rel_err={"ours": 1e-3},
    )


BENCH = Bench(
    suite="smoke",
    target=target.load("h200"),
    against=("torch",),
    serve=served,
    referee=referee,
    machine={"gpu": "NVIDIA H200"},
    versions={"triton": "3.6.0"},
    date="2026-01-01",
    command="autosched bench smoke",
)


def test_each_workload_is_written_as_soon_as_it_is_measured(tmp_path: Path) -> None:
    rows = run(BENCH, TASKS, out=tmp_path)
    assert next(rows).workload == "a"
    data = json.loads((tmp_path / "smoke-h200.json").read_text())
    assert [row["workload"] for row in data["rows"]] == ["a"]
    assert next(rows).workload == "b"
    data = json.loads((tmp_path / "smoke-h200.json").read_text())
    assert [row["workload"] for row in data["rows"]] == ["a", "b"]
    first = data["rows"][0]
    assert first["ours_us"] == 10.0
    assert first["ratio_torch"] == 1.1
    assert first["sketch"] == "contraction.pointer"
    assert first["fingerprint"] == PROGRAM.fingerprint
    assert first["rel_err"] == 1e-3
    assert first["tags"] == ["odd"]
    assert (tmp_path / "smoke-h200.md").exists()


def test_only_some_workloads_leave_the_other_rows(tmp_path: Path) -> None:
    list(run(BENCH, TASKS, out=tmp_path))
    later = replace(BENCH, date="2026-01-02")
    assert [row.workload for row in run(later, TASKS, only=["b"], out=tmp_path)] == ["b"]
    data = json.loads((tmp_path / "smoke-h200.json").read_text())
    assert [row["workload"] for row in data["rows"]] == ["a", "b"]
    assert [(r["date"], r["workloads"]) for r in data["runs"]] == [
        ("2026-01-01", ["a"]),
        ("2026-01-02", ["b"]),
    ]


def test_an_unknown_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'c' is not in the suite; it has a, b"):
        list(run(BENCH, TASKS, only=["c"], out=tmp_path))


def test_results_of_another_gpu_are_refused_before_anything_runs(tmp_path: Path) -> None:
    list(run(replace(BENCH, machine={"gpu": "another"}), TASKS, out=tmp_path))
    broken = replace(BENCH, serve=lambda _: pytest.fail("it ran"))
    with pytest.raises(BadResults, match="choose another --out"):
        list(run(broken, TASKS, out=tmp_path))


def test_tuning_comes_before_serving_and_reaches_the_row(tmp_path: Path) -> None:
    tuned: list[str] = []

    def tune(task: object) -> Tuning:
        tuned.append(task.id)  # type: ignore[attr-defined]
        return Tuning(trials=64, tune_s=8.5, candidates_per_s=12.5)

    def serve(workload: Workload) -> Served:
        assert tuned
        return served(workload)

    bench = replace(BENCH, tune=tune, serve=serve)
    [row] = run(bench, TASKS, only=["a"], out=tmp_path)
    assert tuned == ["a"]
    assert (row.trials, row.tune_s, row.candidates_per_s) == (64, 8.5, 12.5)


def test_what_is_not_tuned_is_said_in_a_note(tmp_path: Path) -> None:
    def serve(workload: Workload) -> Served:
        return Served(workload, "library", "nothing is logged for it")

    def judge(contest: Contest) -> Outcome:
        assert contest.programs == {}
        return Outcome(
            times_us={"torch": Interval(1, 1, 1)},
            ratios={"torch": Interval(1, 1, 1)},
            failures={"inductor": "it took more than 300 s"},
        )

    [row] = run(replace(BENCH, serve=serve, referee=judge), TASKS[:1], out=tmp_path)
    assert row.notes == ("nothing is logged for it", "inductor: it took more than 300 s")
    assert row.ratios == {}


def test_predictions_lie_in_a_file_of_their_own() -> None:
    assert replace(BENCH, predicted=True).file_name == "smoke-h200-predicted.json"


def test_the_first_eight_trials_are_held_to_the_best_of_all() -> None:
    assert first8_ratio([None, 8.0, *[9.0] * 6, 4.0]) == 2.0
    assert first8_ratio([None] * 8 + [4.0]) is None
    assert first8_ratio([]) is None


OTHER = Program((Buffer("C", (8,), (1,), "float32", "output"),), (), 1)


def test_quick_effort_goes_first_and_is_compared_in_the_same_rounds(tmp_path: Path) -> None:
    order: list[str] = []

    def tune(task: object) -> Tuning:
        order.append("full")
        return Tuning(trials=1000, tune_s=90.0)

    def quick(task: object) -> Quick:
        order.append("quick")
        found = Served(TASKS[0].workload, "tuned", "best of 64", None, OTHER, 11.0)
        return Quick(found, trials=64, seconds=8.25)

    def judge(contest: Contest) -> Outcome:
        assert list(contest.programs.items()) == [("ours", PROGRAM), ("quick", OTHER)]
        made = referee(contest)
        return replace(made, setup_s=dict.fromkeys(made.times_us, 1.0))

    bench = replace(BENCH, tune=tune, quick=quick, referee=judge)
    [row] = run(bench, TASKS[:1], out=tmp_path)
    assert order == ["quick", "full"]
    data = row.to_data(("torch",))
    assert (data["quick_s"], data["quick_trials"], data["quick_us"]) == (8.25, 64, 11.0)
    assert (data["quick_share"], data["quick_share_low"]) == (0.90909, 0.83333)
    assert (data["trials"], data["tune_s"], data["ours_us"]) == (1000, 90.0, 10.0)
    assert set(data["bench_s"]) == {"tune_s", "compare_s", "torch_s"}
    assert "ours / quick" in (tmp_path / "smoke-h200.md").read_text()


def test_quick_effort_that_found_nothing_is_said_and_leaves_the_rest(tmp_path: Path) -> None:
    library = Served(TASKS[0].workload, "library", "no schedule is valid")
    bench = replace(BENCH, quick=lambda _: Quick(library, 64, 3.0))
    [row] = run(bench, TASKS[:1], out=tmp_path)
    assert row.notes == ("quick: no schedule is valid",)
    data = row.to_data(("torch",))
    assert (data["quick_s"], data["quick_us"], data["quick_share"]) == (3.0, None, None)
    assert data["ratio_torch"] == 1.1
