"""What tune starts from: the shipped prior, another, or none."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched import landscape
from autosched.cli.main import main
from cost_model import prior
from measure.log import read
from measure.record import RunRecord

SQUARE = "matmul:m=1024,n=1024,k=1024,dtype=float16"
REBUILD = (
    "autosched prior build " + " ".join(landscape.names()) + " -o cost_model/data/h200.prior.xz"
)


def tune(log: Path, *arguments: str) -> Result:
    words = ["tune", SQUARE, "--trials", "8", "-o", str(log), *arguments]
    return CliRunner().invoke(main, words)


def search_of(log: Path) -> dict[str, object]:
    (start,) = [r for r in read(log).records if isinstance(r, RunRecord)]
    return start.identity["search"]


def test_the_shipped_prior_is_what_its_command_makes(tmp_path: Path) -> None:
    made = tmp_path / "made.prior.xz"
    words = ["prior", "build", *landscape.names(), "-o", str(made), "-f", "json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.stderr
    shipped = prior.shipped("h200")
    assert shipped is not None
    assert json.loads(result.stdout)["digest"] == prior.load(shipped).digest, REBUILD


@pytest.fixture(scope="module")
def without_square() -> prior.Prior:
    shipped = prior.shipped("h200")
    assert shipped is not None
    return prior.load(shipped).without(landscape.load("square").workload.key)


def test_a_search_starts_from_what_is_known_of_other_workloads(
    tmp_path: Path, without_square: prior.Prior
) -> None:
    log = tmp_path / "tuned.jsonl"
    assert tune(log, "--device", "replay").exit_code == 0
    assert landscape.load("square").workload.key not in without_square.dataset.workloads
    search = search_of(log)
    assert search["model_prior"] == without_square.digest
    assert search["model_transfer"] == "gated"
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0
    other = tune(log, "--device", "replay", "--prior", "none", "--resume", "--trials", "9")
    assert other.exit_code == 2
    assert "model prior was" in other.stderr


def test_predicted_times_and_the_wish_for_none_leave_it_out(tmp_path: Path) -> None:
    for name, words in (("a", ("--device", "model")), ("b", ("--device", "replay"))):
        log = tmp_path / name
        wish = () if name == "a" else ("--prior", "none")
        assert tune(log, *words, *wish).exit_code == 0
        assert "model_prior" not in search_of(log)
        assert search_of(log)["model_transfer"] == "none"


def test_a_prior_of_ones_own_is_taken_or_refused(tmp_path: Path) -> None:
    own, log = tmp_path / "own.prior.xz", tmp_path / "tuned.jsonl"
    words = ["prior", "build", "depthwise", "-o", str(own)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert tune(log, "--device", "replay", "--prior", str(own)).exit_code == 0
    assert search_of(log)["model_prior"] == prior.load(own).digest
    own.write_bytes(own.read_bytes()[:-5])
    refused = tune(tmp_path / "b", "--device", "replay", "--prior", str(own))
    assert refused.exit_code == 2
    assert str(own) in refused.stderr
    missing = tune(tmp_path / "c", "--device", "replay", "--prior", str(tmp_path / "nowhere"))
    assert missing.exit_code == 5
