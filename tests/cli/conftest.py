"""One small run on the model of a GPU, shared by whatever reads its log."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main

SMALL = "matmul:m=64,n=64,k=64,dtype=float16"


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What ``tune`` said, and its log."""
    log = tmp_path_factory.mktemp("tuned") / "tuned.jsonl"
    result = CliRunner().invoke(
        main, ["tune", SMALL, "--device", "model", "--trials", "6", "-o", str(log)]
    )
    return result, log
