"""Profiles of hypothesis; goldens: text compared whole, rewritten by --update-golden; a driver of
CUDA that computes nothing."""

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what came out"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return ``check(name, text)``: is ``text`` what ``tests/golden/<name>`` holds?"""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest --update-golden and read the diff"
        assert text == path.read_text(encoding="utf-8")

    return check


class FakeCuda:
    """A library that stands in for libcuda.so.1: see fake_cuda/fake_cuda.c."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fake_cuda_log.restype = ctypes.c_char_p

    def calls(self, *kinds: str) -> list[dict[str, Any]]:
        """Return what was logged since the last reset, of some kinds of calls or of all."""
        made = [json.loads(line) for line in self.library.fake_cuda_log().splitlines()]
        return [call for call in made if not kinds or call["call"] in kinds]

    def be(self, name: str, major: int, minor: int) -> None:
        """Pretend to be another GPU."""
        self.library.fake_cuda_device(name.encode(), major, minor)

    def reset(self) -> None:
        """Empty the log and be an H200."""
        self.library.fake_cuda_reset()
        self.be("NVIDIA H200", 9, 0)


@pytest.fixture(scope="session")
def fake_cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the fake driver, built by gcc; skips where there is none."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    source = Path(__file__).parent / "fake_cuda" / "fake_cuda.c"
    path = tmp_path_factory.mktemp("fake_cuda") / "libcuda.so.1"
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run([gcc, *flags, "-shared", "-fPIC", source, "-o", path], check=True)
    return path


@pytest.fixture
def fake_cuda(fake_cuda_library: Path) -> FakeCuda:
    """Return the fake driver, loaded into this process, with an empty log."""
    fake = FakeCuda(fake_cuda_library)
    fake.reset()
    return fake
