"""autosched landscapes, and what is shipped."""

import json
from pathlib import Path

from click.testing import CliRunner

from autosched.cli.main import main
from autosched.landscape import form, names
from autosched.landscape.synthetic import synthetic


def test_every_shipped_landscape_is_of_a_gpu_and_faster_than_the_library() -> None:
    result = CliRunner().invoke(main, ["landscapes", "-f", "json"])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == list(names())
    assert len(rows) >= 6
    for row in rows:
        assert row["gpu"] == "NVIDIA H200"
        assert row["left_out"] <= 0.1 * row["schedules"], "record it again: the space has changed"
        assert row["best_us"] < row["library_us"]
        assert row["command"].startswith("autosched record configs/suites/landscapes.yaml")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.landscape.xz"
    spec = {"op": "matmul", "m": 64, "n": 64, "k": 64, "dtype": "float16"}
    form.write(path, *synthetic(spec, 12))
    result = CliRunner().invoke(main, ["landscapes", str(path)])
    assert result.exit_code == 0, result.stderr
    assert "own" in result.stdout
    assert "a model of h200" in result.stdout
    assert CliRunner().invoke(main, ["landscapes", "nowhere"]).exit_code == 2
