"""Figures of reliability on a real GPU: JSON lines, and files where AUTOSCHED_RESULTS_DIR says.

With AUTOSCHED_DRY_RUN the same tests run without a GPU, in the interpreter, with times that
programs state themselves: a rehearsal of everything but the device.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

import autosched
from measure.nvml import driver_version

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "tests" / "measure"
for folder in (KERNELS, Path(__file__).parent):
    sys.path.insert(0, str(folder))

DRY = bool(os.environ.get("AUTOSCHED_DRY_RUN"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if not DRY and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Let children import the kernels, and in a dry run let their device have a name."""
    # This process takes the device, if it does, before anything watches who comes there.
    _heading()
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(p for p in (str(KERNELS), os.environ.get("PYTHONPATH", "")) if p)
        patch.setenv("PYTHONPATH", path)
        if DRY:
            patch.setenv("OMP_NUM_THREADS", "1")
            patch.setenv("CPU_WORKER_UUID", "rehearsal")
        yield


Figure = Callable[..., None]


class Results:
    """Figures as they come, written after each, so that what ends a run early loses none."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._figures: list[dict[str, Any]] = []
        folder = os.environ.get("AUTOSCHED_RESULTS_DIR")
        self._folder = Path(folder) if folder else None

    def add(self, figure: str, **values: Any) -> None:
        row = {"figure": figure, **values}
        self._figures.append(row)
        self._show(json.dumps(row))
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            held = {**_heading(), "figures": self._figures}
            text = json.dumps(held, indent=1) + "\n"
            (self._folder / "reliability-h200.json").write_text(text, encoding="utf-8")
            text = _markdown(held)
            (self._folder / "reliability-h200.md").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def figure(request: pytest.FixtureRequest) -> Figure:
    """Return ``figure(name, **values)``, which prints one JSON line and keeps it."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    return Results(show).add


def _heading() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none: a dry run"
    versions = {p: metadata.version(p) for p in ("torch", "triton")}
    return {
        "machine": {
            "gpu": gpu,
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {
            "autosched": autosched.__version__,
            **versions,
            "python": platform.python_version(),
            "driver": driver_version(),
        },
        "date": date.today().isoformat(),
        "command": "python -m pytest -m gpu tests/gpu/reliability",
    }


def _markdown(held: dict[str, Any]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in held["machine"].items())
    versions = ", ".join(f"{name} {value}" for name, value in held["versions"].items() if value)
    lines = [
        f"# Reliability on {held['machine']['gpu']}",
        "",
        "What `docs/reliability.md` promises, shown on a real device.",
        "",
        f"Machine: {machine}. Versions: {versions}.",
        "",
        f"    {held['command']}    # {held['date']}",
    ]
    for name in dict.fromkeys(row["figure"] for row in held["figures"]):
        rows = [row for row in held["figures"] if row["figure"] == name]
        columns = list(dict.fromkeys(key for row in rows for key in row if key != "figure"))
        lines += ["", f"## {name}", "", f"| {' | '.join(columns)} |"]
        lines += [f"| {' | '.join('---' for _ in columns)} |"]
        lines += [f"| {' | '.join(_cell(row.get(c, '')) for c in columns)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    return str(value).replace("|", "\\|")
