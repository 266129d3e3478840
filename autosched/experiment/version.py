"""The versions that the bytes of an experiment depend on beside its file."""

from __future__ import annotations

import platform
from importlib import metadata

import numpy as np

import autosched
from cost_model.features import schema_hash

#: Distributions that bring the learner, by what they are called on different machines.
LEARNERS = ("xgboost", "xgboost-cpu")


def versions() -> dict[str, str]:
    """Return them by name."""
    return {
        "autosched": autosched.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": np.__version__,
        "xgboost": _learner(),
        "features": schema_hash(),
    }


def _learner() -> str:
    for name in LEARNERS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "none"
