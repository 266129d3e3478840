"""Tests of autosched experiment from the command line: exit codes, what is said and where."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main
from autosched.experiment.folder import Folder

ROOT = Path(__file__).parents[2]
FILE = """\
name: two
question: Is it better to be asked twice?
device: model
workloads: [{id: small, op: matmul, m: 256, n: 256, k: 512, dtype: float16}]
arms:
  guided: {cost_model: analytic, batch: 8, search: {population: 32, generations: 1}}
  random: {strategy: random, batch: 8}
seeds: 2
trials: 24
checkpoints: [8, 16]
finals: {entrants: [1, 2], rounds: [5], draws: 2}
modelled: {schedules: 60, sketches: 2}
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["experiment", *map(str, arguments)])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("experiment") / "two.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ran(file: Path) -> tuple[Result, Path]:
    out = file.parent / "out"
    return invoke("run", file, "--out", out), out


def test_run_prints_a_row_an_arm_and_says_the_rest_beside(ran: tuple[Result, Path]) -> None:
    result, out = ran
    assert result.exit_code == 0
    rows = [line.split()[0] for line in result.stdout.splitlines()]
    assert rows == ["arm", "guided", "random"]
    assert "Is it better to be asked twice?" in result.stderr
    assert "4 of 4: small/random/1: " in result.stderr
    assert (out / "summary.json").is_file()


def test_run_goes_on_with_its_folder(file: Path, ran: tuple[Result, Path]) -> None:
    result = invoke("run", file, "--out", ran[1], "-f", "json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary == json.loads((ran[1] / "summary.json").read_text())
    assert list(summary["arms"]) == ["guided", "random"]
    assert " of 4: " not in result.stderr


def test_report_makes_the_page(ran: tuple[Result, Path]) -> None:
    result = invoke("report", ran[1], "-f", "json")
    assert result.exit_code == 0
    page = Path(json.loads(result.stdout)["page"])
    assert page == ran[1] / "report.html"
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_diff_is_0_for_equal_folders_and_1_with_the_first_difference(
    file: Path, ran: tuple[Result, Path]
) -> None:
    again, other = file.parent / "again", file.parent / "other"
    assert invoke("run", file, "--out", again, "-q").stderr == ""
    same = invoke("diff", ran[1], again)
    assert (same.exit_code, same.stdout) == (0, "identical\n")
    assert invoke("run", file, "--out", other, "--seeds", 1, "--only", "random").exit_code == 0
    different = invoke("diff", ran[1], other)
    assert different.exit_code == 1
    first, second, *_ = different.stdout.splitlines()
    assert first.startswith("resolved.yaml: arms: ")
    assert second == f"runs small/guided/0: is not in {other}"
    plain = json.loads(invoke("diff", ran[1], other, "-f", "json").stdout)
    assert plain["identical"] is False
    assert plain["differences"][1] == {
        "part": "runs",
        "run": "small/guided/0",
        "trial": None,
        "fact": f"is not in {other}",
    }


def test_what_is_wrong_is_refused_with_its_place(file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(FILE.replace("batch: 8", "bacth: 8"), encoding="utf-8")
    result = invoke("run", wrong, "--out", tmp_path / "out")
    assert result.exit_code == 2
    sentence = "arms.guided.bacth: unknown, did you mean batch"
    assert result.stderr == f"autosched: {wrong}:6:34: {sentence}\n"
    assert not (tmp_path / "out").exists()
    assert invoke("run", tmp_path / "none.yaml", "--out", tmp_path / "out").exit_code == 2
    assert invoke("run", file, "--out", tmp_path).exit_code == 2
    assert invoke("diff", tmp_path, tmp_path).exit_code == 2
    assert invoke("report", tmp_path).exit_code == 2
    other = invoke("run", file, "--out", tmp_path / "out", "--only", "rondom")
    assert other.exit_code == 2
    assert "did you mean random" in other.stderr


def test_an_interrupt_is_130_and_keeps_what_is_done(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "autosched.cli.main", "experiment", "run", str(file)]
    with subprocess.Popen(
        [*command, "--out", str(out), "--seeds", "500"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1 of 1000: ")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 130
    assert rest.endswith("autosched: interrupted\n")
    runs = Folder(out).runs()
    assert 1 <= len(runs) < 1000
    assert all(Folder(out).read_run(name)[-1]["kind"] == "stop" for name in runs)
    assert not (out / "summary.json").exists()


def test_the_schema_of_experiments_is_json() -> None:
    result = CliRunner().invoke(main, ["schema", "experiment", "-f", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["title"] == "autosched experiment"
