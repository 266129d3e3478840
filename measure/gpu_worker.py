"""The measuring worker of a GPU: as ``measure.worker``, with two slow beginnings at the same time.

While torch is loaded, the driver starts. Knows nothing of what is asked of a worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading


def start_driver() -> None:
    """Initialise CUDA's driver, which takes no device yet. Whoever needs it sees any error."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuInit(0)


threading.Thread(target=start_driver, name=start_driver.__name__, daemon=True).start()

handle = importlib.import_module("measure.worker").handle
