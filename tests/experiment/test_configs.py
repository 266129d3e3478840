"""Every experiment of configs/ runs, in small and on made-up landscapes."""

from pathlib import Path

import pytest

from autosched.experiment.folder import Folder
from autosched.experiment.loader import Overrides, load
from autosched.experiment.run import run
from autosched.spec import yaml_file

FILES = sorted((Path(__file__).parents[2] / "configs/experiments").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_runs(path: Path, landscapes: Path, tmp_path: Path) -> None:
    given = tuple(str(landscapes / f"{name}.landscape.xz") for name in ("small", "skinny"))
    experiment = load(str(path), Overrides(landscapes=given, seeds=1, small=True))
    assert experiment.name == path.stem
    assert experiment.question.endswith("?")
    folder = tmp_path / path.stem
    summary = run(experiment, folder)
    assert list(summary["arms"]) == [arm.name for arm in experiment.arms]
    assert all(held for held in summary["arms"].values())
    assert set(Folder(folder).tables()) >= set(experiment.metrics)
    assert load(str(folder / "resolved.yaml")) == experiment


def test_every_file_says_first_what_it_is_about() -> None:
    assert FILES
    for path in FILES:
        assert path.read_text("utf-8").startswith("# ")
        data = yaml_file.read(str(path)).data
        assert data["name"] == path.stem
