"""Models of the examples run through the whole comparison, small and without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autosched.bench.model_run import in_turns, main, table

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["resnet50", "llama"])
def test_an_example_runs_and_is_compared(name: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.touch()
    place = f"{EXAMPLES / name}.py:small"
    result = CliRunner().invoke(
        main,
        [place, "--log", str(log), "--out", str(tmp_path), "--compiled", "", "--rounds", "2"],
    )
    assert result.exit_code == 0, result.output
    [data] = json.loads((tmp_path / "models.json").read_text())["models"]
    assert set(data["ms"]) == {"eager", "accelerated"}
    assert data["error"] == {"eager": 0.0, "accelerated": 0.0}
    assert set(data["layers"]) == {"torch"}
    assert data["workloads"]
    assert table(data) in result.output


def test_ways_take_turns() -> None:
    said: list[str] = []
    ways = {name: lambda name=name: said.append(name) for name in "ab"}
    times = in_turns(ways, rounds=3, runs=2)  # type: ignore[arg-type]
    assert set(times) == {"a", "b"}
    assert sorted(said) == ["a"] * 6 + ["b"] * 6


def test_what_returns_no_model_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.touch()
    other = tmp_path / "other.py"
    other.write_text("def run():\n    return 3\n")
    result = CliRunner().invoke(main, [f"{other}:run", "--log", str(log)])
    assert result.exit_code == 2
    assert "it returns no model and its inputs" in result.output
