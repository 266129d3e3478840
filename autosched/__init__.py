"""Fast GPU kernels for tensor computations, found by search and served from a log.

Names are loaded when they are first used: importing this package imports nothing heavy, and
serving never imports the tuner.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched import ops, te
    from autosched.background import background_tuner
    from autosched.models.accelerate import accelerate
    from autosched.runtime.loading import explain, load
    from autosched.runtime.tuned import Tuned

__all__ = ["Tuned", "__version__", "accelerate", "background_tuner", "explain", "load", "ops", "te"]

__version__ = "0.1.0"

_HOMES = {
    "Tuned": "autosched.runtime.tuned",
    "accelerate": "autosched.models.accelerate",
    "background_tuner": "autosched.background",
    "explain": "autosched.runtime.loading",
    "load": "autosched.runtime.loading",
}
_MODULES = ("ops", "te")

logging.getLogger("autosched").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"autosched.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'autosched' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
