"""Observations of earlier logs and landscapes: what teaches, and what is left out."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from autosched.cli.main import main
from autosched.landscape.form import write
from autosched.landscape.landscape import load
from autosched.landscape.synthetic import synthetic
from autosched.tune import earlier
from cost_model import prior as priors
from measure.measurement import CompiledFacts, Failed, Failure, Timed, Timing
from search_space import target as targets
from search_space.rules import sketches

H200 = targets.load("h200")
SPEC = {"op": "matmul", "m": 256, "n": 256, "k": 256, "dtype": "float16"}


@pytest.fixture(scope="module")
def landscape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landscape that says its made-up times were measured."""
    head, lines = synthetic(SPEC, 100, most_sketches=3)
    path = tmp_path_factory.mktemp("earlier") / "small.landscape.xz"
    measured = [
        line.model_copy(update={"measurement": line.measurement.model_copy(update=change)})
        for line in lines
        for change in [{"predicted": False} if line.measurement.status == "ok" else {}]
    ]
    write(path, head, measured)
    return path


def test_points_of_a_landscape_become_observations(landscape: Path) -> None:
    held = load(landscape)
    found = earlier.of_landscape(held)
    assert (len(found.observations), found.left_out) == (100, 0)
    for point, seen in zip(held.points, found.observations, strict=True):
        assert tuple(seen.choices[n] for n in seen.sketch.names) == point.choices
        assert seen.latency_us == point.latency_us


def test_what_teaches_nothing_is_left_out() -> None:
    workload = load_workload()
    sketch = sketches(workload, H200)[0]
    space = {sketch.name: sketch}
    choices = {choice.name: choice.domain[0] for choice in sketch.choices}
    facts = CompiledFacts(64, 0, 1024, 9000, {"HGMMA": 4})
    timed = Timed(Timing(5.0, 5.0, 5.0, (5.0,)), facts, None, 0.1, 0.1)
    seen = earlier.observation(space, sketch.name, choices, timed)
    assert seen is not None
    assert seen.latency_us == 5.0
    assert seen.facts is not None
    assert (seen.facts["registers"], seen.facts["HGMMA"]) == (64, 4)
    failed = earlier.observation(space, sketch.name, choices, Failed(Failure.RUNTIME, "planted"))
    assert failed is not None
    assert failed.latency_us is failed.facts is None
    predicted = Timed(timed.timing, None, None, 0.1, 0.1, predicted=True)
    assert earlier.observation(space, sketch.name, choices, predicted) is None
    assert earlier.observation(space, "another", choices, timed) is None
    assert earlier.observation(space, sketch.name, {**choices, "warps": 3}, timed) is None
    assert earlier.observation(space, sketch.name, {"warps": 4}, timed) is None


def load_workload():
    from autosched.spec import from_data

    return from_data("spec", SPEC).workload


def test_a_prior_is_built_by_a_command(landscape: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "a.prior.xz", tmp_path / "b.prior.xz"
    result = CliRunner().invoke(main, ["prior", "build", str(landscape), "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    assert "100 measurements of 1 workloads on h200" in result.stdout
    assert (
        CliRunner().invoke(main, ["prior", "build", str(landscape), "-o", str(again)]).exit_code
        == 0
    )
    assert out.read_bytes() == again.read_bytes()
    assert priors.load(out).dataset.workloads == (load_workload().key,) * 100


def test_a_prior_of_nothing_is_refused(landscape: Path, tmp_path: Path) -> None:
    out, key = tmp_path / "a.prior.xz", load_workload().key
    command = ["prior", "build", str(landscape), "--without", key, "-o", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert result.stderr.endswith("a prior takes 64 rows with a time, not 0\n")
    assert not out.exists()
