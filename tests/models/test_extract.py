"""A model is run once, and what it is made of can be tuned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from autosched.cli.main import main
from autosched.models.extract import NotRunnable, extract, load, to_yaml
from autosched.spec import load as load_spec

SMALL = Path(__file__).parent / "small.py"


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("function", "times"), [("built", 1), ("run", 2)])
def test_workloads_are_counted(function: str, times: int) -> None:
    extracted = extract(load(f"{SMALL}:{function}"))
    counts = {found.described.workload.label: found.count for found in extracted.found}
    assert counts == {
        "conv2d 2x4x4x8*3x3x16 p1x1 float32 NHWC tf32": times,
        "depthwise_conv2d 2x4x4x16*3x3x16 p1x1 float32 NHWC tf32 bias": times,
        "batch_matmul 2x16x16x16 float32 nn ieee": 2 * times,
        "matmul 32x32x16 float32 nt ieee bias": times,
    }
    # What circular padding makes lies in neither of torch's formats.
    assert extracted.left == {"aten.convolution.default": times}
    assert 0 < extracted.share <= 1


def test_what_is_written_is_a_suite_of_the_same_workloads(tmp_path: Path) -> None:
    extracted = extract(load(f"{SMALL}:built"))
    path = tmp_path / "tasks.yaml"
    path.write_text(to_yaml(extracted, "small.py"))
    tasks = load_spec(str(path))
    assert [t.workload.key for t in tasks] == [f.described.workload.key for f in extracted.found]
    assert [t.weight for t in tasks] == [f.count for f in extracted.found]


def test_what_no_spec_states_is_counted() -> None:
    def call() -> torch.Tensor:
        a = torch.randn(4, 4, dtype=torch.float64)
        return torch.addmm(torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)) + (a @ a)

    extracted = extract(call)
    assert not extracted.found
    assert sum(extracted.left.values()) == 2


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("small.py", "name a function of a file"),
        ("nowhere.py:built", "there is no such file"),
        (f"{SMALL}:missing", "defines no function 'missing'"),
        (f"{SMALL}:broken", "it raised OSError: no weights here"),
    ],
)
def test_what_cannot_be_run_is_said(place: str, said: str) -> None:
    with pytest.raises(NotRunnable, match=said):
        load(place)
    result = cli("extract", place)
    assert result.exit_code == 2
    assert said in result.stderr


def test_extract_then_tune_under_one_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("extract", f"{SMALL}:built", "-f", "json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["id"] for row in rows] == [f"t{n}" for n in range(len(rows))]
    tuned = cli(
        *("tune", "tasks.yaml", "--device", "model", "--total-trials", 12, "-o", "log.jsonl", "-q")
    )
    assert tuned.exit_code in (0, 3), tuned.stderr
    assert (tmp_path / "log.jsonl").exists()
