"""What a program raised, as a failure with its kind. Knows nothing of how it was run."""

from __future__ import annotations

import torch
from triton.runtime.errors import OutOfResources

from measure.child import first_line
from measure.launch import BadArgument
from measure.measurement import Cause, Failed, Failure
from measure.session import DoesNotCompile, WrongResult


def failure_of(error: BaseException) -> Failed:
    """Turn what a program raised into a failure with its kind."""
    match error:
        case WrongResult():
            return Failed(Failure.CORRECTNESS, str(error), cause=error.cause)
        case OutOfResources():
            return Failed(Failure.CONSTRAINTS, _brief(error), cause=Cause.OUT_OF_RESOURCES)
        case BadArgument():
            return Failed(Failure.CONSTRAINTS, _brief(error), cause=Cause.BAD_ARGUMENT)
        case torch.OutOfMemoryError():
            torch.cuda.empty_cache()
            return Failed(Failure.RUNTIME, "out of device memory", cause=Cause.OUT_OF_MEMORY)
        case DoesNotCompile():
            return Failed(Failure.COMPILE, str(error), cause=Cause.REFUSED)
        case _:
            return Failed(Failure.RUNTIME, _brief(error), cause=Cause.RAISED)


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
