"""Small landscapes as files, and a small experiment on them that was run."""

from pathlib import Path

import pytest

from autosched.experiment.loader import load
from autosched.experiment.plan import Experiment
from autosched.experiment.run import run
from autosched.landscape import form
from autosched.landscape.synthetic import synthetic

SPECS = {
    "small": {"op": "matmul", "m": 256, "n": 512, "k": 1024, "dtype": "float16"},
    "skinny": {"op": "matmul", "m": 16, "n": 1024, "k": 512, "dtype": "bfloat16"},
}
FILE = """\
name: three
question: Which of three is best?
landscapes: [small.landscape.xz, skinny.landscape.xz]
arms:
  guided: {cost_model: analytic, batch: 8, search: {population: 32, generations: 1}}
  learning: {cost_model: xgboost, model: {bags: 1, rounds: 4}, batch: 8,
             search: {population: 32, generations: 1}}
  random: {strategy: random, batch: 8}
seeds: 3
trials: 32
checkpoints: [4, 8, 16]
checkpoints_s: [1, 2, 400]
finals: {entrants: [1, 4], rounds: [5], draws: 4}
"""


@pytest.fixture(scope="session")
def landscapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two landscapes, and an experiment file beside them."""
    folder = tmp_path_factory.mktemp("landscapes")
    for name, spec in SPECS.items():
        head, lines = synthetic(spec, 120, most_sketches=3)
        form.write(folder / f"{name}.landscape.xz", head, lines)
    (folder / "three.yaml").write_text(FILE, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def experiment(landscapes: Path) -> Experiment:
    """The experiment of the file."""
    return load(str(landscapes / "three.yaml"))


@pytest.fixture(scope="session")
def done(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder, as one process made it. Not to be changed."""
    folder = tmp_path_factory.mktemp("done") / "three"
    run(experiment, folder)
    return folder
