"""What a program raised, as a failure with its kind. Knows nothing of how it was run."""

from __future__ import annotations

import torch
from triton.runtime.errors import OutOfResources

from measure.child import first_line
from measure.launch import BadArgument
from measure.measurement import Failed, Failure
from measure.session import DoesNotCompile, WrongResult


def failure_of(error: BaseException) -> Failed:
    """Turn what a program raised into a failure with its kind."""
    match error:
        case WrongResult():
            return Failed(Failure.CORRECTNESS, str(error))
        case OutOfResources() | BadArgument():
            return Failed(Failure.CONSTRAINTS, _brief(error))
        case torch.OutOfMemoryError():
            torch.cuda.empty_cache()
            return Failed(Failure.RUNTIME, "out of device memory")
        case DoesNotCompile():
            return Failed(Failure.COMPILE, str(error))
        case _:
            return Failed(Failure.RUNTIME, _brief(error))


def _brief(error: BaseException) -> str:
    """Return the error's type and first line: CUDA's errors go on with advice."""
    return f"{type(error).__name__}: {first_line(str(error))}"


def healthy(device: torch.device) -> bool:
    """Whether the device still works after an error."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
    except Exception:  # noqa: BLE001  any error here means the context is lost
        return False
    return True
