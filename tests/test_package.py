from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import autosched

ROOT = Path(__file__).parent.parent

#: What tuning needs and serving never loads.
TUNING = (
    "xgboost",
    "sklearn",
    "autosched.tune",
    "autosched.bench",
    "autosched.export",
    "cost_model.xgboost_model",
)

LOADED = """
import sys
{code}
found = [name for name in {names!r} if name in sys.modules]
assert not found, found
"""

SERVE = """
import autosched, torch, warnings
from autosched.te.operators import matmul
tuned = autosched.load(sys.argv[1], target="h200")
served = tuned.lookup(matmul(64, 64, 64, dtype="float16"))
assert served.source == "default", served
tuned.summary()
"""


def run(code: str, names: tuple[str, ...], *arguments: str) -> None:
    text = LOADED.format(code=code, names=names)
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_the_public_names_are_these() -> None:
    assert autosched.__all__ == [
        "Tuned",
        "__version__",
        "accelerate",
        "background_tuner",
        "explain",
        "load",
        "ops",
        "te",
    ]
    assert set(autosched.__all__) <= set(dir(autosched))
    for name in autosched.__all__:
        assert getattr(autosched, name) is not None
    with pytest.raises(AttributeError, match="module 'autosched' has no attribute 'tune_all'"):
        autosched.tune_all  # noqa: B018


def test_the_version_of_the_distribution_is_read_from_here() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["hatch"]["version"]["path"] == "autosched/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", autosched.__version__)


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("torch", "triton", "numpy", "pydantic", "autosched.te", "autosched.runtime")
    run("import autosched; autosched.__version__", heavy + TUNING)


def test_serving_loads_neither_the_tuner_nor_its_model(tmp_path: Path) -> None:
    log = tmp_path / "empty.jsonl"
    log.touch()
    run(SERVE, TUNING, str(log))


def test_the_library_logs_and_leaves_handlers_to_its_user() -> None:
    code = "import logging, autosched; h = logging.getLogger('autosched').handlers; "
    run(code + "assert [type(x).__name__ for x in h] == ['NullHandler'], h", ())
