"""What a program raised, as a failure with its kind. Knows nothing of how it was run."""

from __future__ import annotations

import torch
import triton
from triton.runtime.errors import OutOfResources

from measure.build_worker import captured, explain
from measure.launch import BadArgument
from measure.measurement import Failed, Failure
from measure.session import WrongResult


def failure_of(error: BaseException) -> Failed:
    """Turn what a program raised into a failure with its kind."""
    match error:
        case WrongResult():
            return Failed(Failure.CORRECTNESS, str(error))
        case OutOfResources() | BadArgument():
            return Failed(Failure.CONSTRAINTS, explain(error, ""))
        case torch.OutOfMemoryError():
            torch.cuda.empty_cache()
            return Failed(Failure.RUNTIME, "out of device memory")
        case SyntaxError() | triton.CompilationError():
            return Failed(Failure.COMPILE, explain(error, captured()))
        case _:
            return Failed(Failure.RUNTIME, explain(error, captured()))


def healthy(device: torch.device) -> bool:
    """Whether the device still works after an error."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
    except Exception:  # noqa: BLE001  any error here means the context is lost
        return False
    return True
