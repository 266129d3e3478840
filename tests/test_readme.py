"""Runs every block of the README that can run here, in the order in which a reader would."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.spec import load

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

#: A reader waits a minute for 320 trials on a GPU; a test of the words does not need them.
FEWER_TRIALS = (r"--trials \d+", "--trials 8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines()]


def run(arguments: list[str], folder: Path) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "AUTOSCHED_TUNE_DEVICE": "model",
        "AUTOSCHED_EXPERIMENT_RUN_SMALL": "1",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_is_make_or_autosched():
    assert {shlex.split(line)[0] for line in commands()} == {"make", "autosched"}


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("make ")])
def test_make_target_exists(line: str):
    (target,) = shlex.split(line)[1:]
    assert re.search(rf"^{target}:", MAKEFILE, flags=re.MULTILINE)


def test_session(tmp_path: Path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    lines = [re.sub(*FEWER_TRIALS, line) for line in commands() if line.startswith("autosched ")]
    for line in lines:
        assert run(["-m", "autosched.cli.main", *shlex.split(line)[1:]], tmp_path)
    anywhere = [block for block in blocks("python") if "cuda" not in block]
    run(["-c", "\n".join(anywhere)], tmp_path)


@pytest.mark.gpu
def test_session_of_python_on_a_gpu(tmp_path: Path):
    (tmp_path / "tuned.jsonl").touch()
    run(["-c", "\n".join(blocks("python"))], tmp_path)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_spec(text: str, tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    assert len(load(str(path))) == 1
