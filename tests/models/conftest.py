"""Records of workloads, made as those of the run time's tests are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "runtime_conftest", Path(__file__).parents[1] / "runtime/conftest.py"
)
assert _spec
assert _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

record = _module.record
