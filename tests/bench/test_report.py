from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autosched.bench.report import BadResults, merge, read, table, write
from autosched.bench.row import Interval, Row


def row(name: str, ours: float, torch: float | None = 12.0, **changes: Any) -> dict[str, Any]:
    times = {"ours": Interval(ours, ours - 1, ours + 1)}
    ratios = {}
    if torch is not None:
        times["torch"] = Interval(torch, torch, torch)
        ratios["torch"] = Interval(torch / ours, torch / ours - 0.01, torch / ours + 0.01)
    made = Row(
        name, name, name, times, ratios, 5.0, 10**9, "tuned", "contraction.pointer", "f" * 16
    )
    return made.to_data(("torch",)) | changes


def results(*rows: dict[str, Any], gpu: str = "NVIDIA H200", date: str = "d1") -> dict[str, Any]:
    return {
        "suite": "smoke",
        "machine": {"gpu": gpu},
        "versions": {"triton": "3.6.0"},
        "date": date,
        "command": "autosched bench smoke",
        "against": ["torch"],
        "rows": list(rows),
    }


def test_a_later_run_replaces_its_rows_and_keeps_the_others_in_the_suites_order() -> None:
    first = merge(None, results(row("a", 10.0), row("c", 10.0)), ["a", "b", "c"])
    second = merge(first, results(row("c", 6.0), row("b", 10.0), date="d2"), ["a", "b", "c"])
    assert [r["workload"] for r in second["rows"]] == ["a", "b", "c"]
    assert second["rows"][2]["ours_us"] == 6.0
    assert [(r["date"], r["workloads"]) for r in second["runs"]] == [
        ("d1", ["a"]),
        ("d2", ["c", "b"]),
    ]


def test_a_run_that_left_no_row_is_forgotten() -> None:
    first = merge(None, results(row("a", 10.0)), ["a"])
    second = merge(first, results(row("a", 9.0), date="d2"), ["a"])
    assert [r["date"] for r in second["runs"]] == ["d2"]


def test_results_of_two_gpus_do_not_merge() -> None:
    first = merge(None, results(row("a", 10.0)), ["a"])
    with pytest.raises(BadResults, match="NVIDIA H200 do not merge with results of NVIDIA A100"):
        merge(first, results(row("a", 10.0), gpu="NVIDIA A100"), ["a"])


def test_results_survive_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "smoke-h200.json"
    assert read(path) is None
    data = merge(None, results(row("a", 10.0)), ["a"])
    write(path, data)
    assert read(path) == data
    assert path.with_suffix(".md").read_text() == table(data)


@pytest.mark.parametrize("text", ["{", "[1]", "{}"])
def test_what_is_no_result_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "smoke-h200.json"
    path.write_text(text)
    with pytest.raises(BadResults, match=r"smoke-h200\.json"):
        read(path)
    assert path.read_text() == text


def test_the_table_shows_intervals_means_and_what_is_missing() -> None:
    data = merge(
        None,
        results(row("a", 10.0), row("b", 24.0), row("c", 5.0, None, notes=["torch has no form"])),
        ["a", "b", "c"],
    )
    text = table(data)
    assert (
        "| a | 10 [9, 11] | 12 | 1.200 [1.190, 1.210] | 100 | 0.50 | contraction.pointer |" in text
    )
    assert "Geometric mean of torch / ours over 2 of 3 workloads: **0.775**, lowest 0.500." in text
    assert "- c: torch has no form" in text
    assert "Predicted" not in text


def test_rows_with_constants_are_marked_and_in_no_mean() -> None:
    rows = (row("a", 10.0), row("b", 2.0, constant=["B"]))
    text = table(merge(None, results(*rows), ["a", "b"]))
    assert "| workload |" in text
    assert [line.split(" | ")[-1] for line in text.splitlines() if line.startswith("| ")] == [
        "constant |",
        "---: |",
        "- |",
        "B |",
    ]
    assert "Geometric mean of torch / ours over 1 of 1 workloads: **1.200**" in text
    assert "Rows with constant inputs (1) are in no mean" in text
    assert "constant" not in table(merge(None, results(row("a", 10.0)), ["a"]))


def test_predicted_times_say_so() -> None:
    assert "**Predicted by a model, not measured.**" in table(
        merge(None, results(row("a", 1.0, None, predicted=True)), ["a"])
    )


def test_kinds_have_their_means_and_slow_rows_are_named() -> None:
    rows = (
        row("a", 10.0, kind="aligned", first8_ratio=2.0, ours_host_us=3.25),
        row("b", 24.0, kind="unaligned", first8_ratio=8.0),
        row("c", 6.0, kind="ieee"),
    )
    text = table(merge(None, results(*rows), ["a", "b", "c"]))
    assert "Over 1 aligned workloads: torch / ours **1.200**, lowest 1.200." in text
    assert "Over 1 ieee workloads: torch / ours **2.000**, lowest 2.000." in text
    assert "Below 0.97 of torch by the interval's upper end: b." in text
    assert "best of all, 2 workloads: **4.000**." in text
    assert "| ours host us |" in text
    assert "| 3.2 |" in text


def test_tags_have_their_means() -> None:
    rows = (row("a", 10.0, tags=["1-d", "odd"]), row("b", 6.0, tags=["odd"]), row("c", 1.0))
    text = table(merge(None, results(*rows), ["a", "b", "c"]))
    assert "Over 1 of 1-d: torch / ours **1.200**, lowest 1.200." in text
    assert "Over 2 of odd: torch / ours **1.549**, lowest 1.200." in text


def test_rows_from_before_a_field_existed_still_merge() -> None:
    known = ("kind", "first8_ratio", "verified_seeds", "bench_s")
    old = {name: value for name, value in row("a", 10.0).items() if name not in known}
    data = merge(results(old), results(row("b", 10.0, kind="aligned")), ["a", "b"])
    assert "Over 1 aligned workloads" in table(data)


def test_quick_effort_has_its_columns_and_a_line() -> None:
    rows = (
        row("a", 10.0, quick_us=10.0, quick_share=1.0, quick_s=4.0),
        row("b", 24.0, quick_us=30.0, quick_share=0.8, quick_s=12.5),
        row("c", 24.0),
    )
    for made in rows[:2]:
        for name in ("quick_us", "quick_share"):
            made |= {f"{name}_low": made[name], f"{name}_high": made[name]}
    text = table(merge(None, results(*rows), ["a", "b", "c"]))
    cells = [line.split(" | ")[-3:] for line in text.splitlines() if line.startswith("| ")]
    assert cells == [
        ["quick us", "ours / quick", "quick tuned in s |"],
        ["---:", "---:", "---: |"],
        ["10", "1.000", "4.0 |"],
        ["30", "0.800", "12.5 |"],
        ["-", "-", "- |"],
    ]
    assert (
        "Quick effort: 4.0 to 12.5 s a workload; its speed over ours has the geometric mean "
        "**0.894** over 2 workloads, lowest 0.800. Below 0.95: b. Above 10 s: b." in text
    )
    assert "quick" not in table(merge(None, results(row("a", 10.0)), ["a"]))
