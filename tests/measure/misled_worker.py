"""A measuring worker for tests whose reference forgets the last term of every sum."""

from __future__ import annotations

import cpu_worker

from measure import reference

_einsum = reference._einsum


def forgetful(operands, kept):  # type: ignore[no-untyped-def]
    made = _einsum(operands, kept)
    return reference.Labelled(made.axes, made.value * 0.75)


reference._einsum = forgetful
handle = cpu_worker.handle
