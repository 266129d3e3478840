"""The measuring worker of a GPU: as ``measure.worker``, with two slow beginnings at the same time.

While torch is loaded, the driver starts and Triton's host code is compiled, where it is not in its
cache. Knows nothing of what is asked of a worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading

from measure.compiler import build_utilities


def start_driver() -> None:
    """Initialise CUDA's driver, which takes no device yet. Whoever needs it sees any error."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuInit(0)


for _begin in (start_driver, build_utilities):
    threading.Thread(target=_begin, name=_begin.__name__, daemon=True).start()

handle = importlib.import_module("measure.worker").handle
