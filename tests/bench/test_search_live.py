from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from autosched.bench.search_live import main


def test_searches_are_compared_on_the_model_device(tmp_path: Path) -> None:
    arguments = ["matmul:m=64,n=64,k=64,dtype=float16", "--device", "model", "--trials", "12"]
    arguments += ["--seeds", "2", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    [data] = json.loads((tmp_path / "search-h200-predicted.json").read_text())["comparisons"]
    assert data["predicted"] is True
    assert [len(s["best_us"]) for s in data["searches"]] == [12] * 4
    assert data["summary"]["seeds"] == 2
    assert data["summary"]["final_ratio"] > 0
    assert "Times are predicted" in done.output
