"""Models of the examples run through the whole comparison, small and without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from autosched.bench import model_run
from autosched.bench.model_run import NotTuned, in_turns, main, table, tune
from autosched.cli.main import main as autosched

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


def test_a_model_is_tuned_first_within_a_budget_and_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        code = CliRunner().invoke(autosched, command[3:]).exit_code
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(model_run.subprocess, "run", here)
    model = tmp_path / "norm.py"
    model.write_text(
        "import torch\n"
        "from torch import nn\n"
        "def built():\n"
        "    layers = nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU()\n"
        "    return nn.Sequential(*layers), torch.randn(1, 8, 4, 4)\n"
    )
    log = tmp_path / "log.jsonl"
    arguments = [f"{model}:built", "--log", log, "--fold", "--budget-seconds", 1, "--rounds", 1]
    result = CliRunner().invoke(
        main, [*map(str, arguments), "--out", str(tmp_path), "--compiled", ""]
    )
    assert result.exit_code == 0, result.output
    assert "relu" in log.read_text()
    [data] = json.loads((tmp_path / "models.json").read_text())["models"]
    assert data["folded"] == {"0": ["1", "2"]}
    assert set(data["ms"]) == {"eager", "eager, folded", "accelerated"}
    assert max(data["error"].values()) < 1e-5
    assert list(data["operators"]["accelerated"]) == ["autosched.conv"]
    assert data["tuned_s"] > 0


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


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotTuned, match=r"extract .*nowhere\.py:built .* ended with 2"):
        tune("nowhere.py:built", tmp_path / "log.jsonl", 1.0, fold=False)
