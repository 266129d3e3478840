"""The fixtures of the run time's tests: modules are not importable in importlib mode."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _fixtures() -> ModuleType:
    path = Path(__file__).parent.parent / "runtime" / "conftest.py"
    spec = importlib.util.spec_from_file_location("runtime_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


record = _fixtures().record
