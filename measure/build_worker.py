"""The child process that compiles. Knows no device; whatever breaks it costs one program."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from measure.child import last_line
from measure.compiled_facts import combine
from measure.compiler import compile_kernel, facts_of, texts_of
from measure.job import Build, Built, CompileText, Texts
from measure.measurement import Cause, Failed, Failure


def handle(request: Build | CompileText, note: Callable[[str], None]) -> Any:
    """Compile a program: Built, Texts or Failed."""
    del note
    start = time.monotonic()
    try:
        compiled = [
            compile_kernel(request.program, kernel, request.triton_target)
            for kernel in request.program.kernels
        ]
    except Exception as error:  # noqa: BLE001  the compiler raises what it likes
        seconds = time.monotonic() - start
        reason = explain(error, captured())
        return Failed(Failure.COMPILE, reason, build_s=seconds, cause=Cause.REFUSED)
    if isinstance(request, CompileText):
        names = [kernel.name for kernel in request.program.kernels]
        return Texts(dict(zip(names, map(texts_of, compiled), strict=True)))
    facts = combine([facts_of(kernel) for kernel in compiled])
    return Built(facts, time.monotonic() - start, request.program.fingerprint)


def captured() -> str:
    """Return what the compiler has written to standard error during this request."""
    size = os.fstat(2).st_size
    return os.pread(2, 65536, max(0, size - 65536)).decode("utf-8", "replace")


def explain(error: BaseException, written: str) -> str:
    """Return one line: the error's type and last line, and the first error the compiler wrote."""
    detail = f"{type(error).__name__}: {last_line(str(error))}"
    said = re.search(r"error:\s*(.+)", written)
    return f"{detail} ({said[1].strip()[:200]})" if said else detail
