"""Which workloads differ in sizes alone. Knows no operator by name."""

from __future__ import annotations

import re

from search_space.workload import Workload

_SIZES = re.compile(r"(?<==)\d+(?=:)|(?<=shape=)\[[^\]]*\]|(?<=strides=)\[[^\]]*\]")


def family_of(workload: Workload) -> str:
    """Return the canonical text without extents, shapes and strides.

    What is computed, dtypes, alignment, constants and precision stay.
    """
    return _SIZES.sub("", workload.canonical)
