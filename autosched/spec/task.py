"""Tasks: workloads with the names and options that a spec gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_space.workload import Workload


@dataclass(frozen=True)
class Task:
    """One workload of a spec.

    ``where`` is its place ("file:line:column" or "argument:1"), ``source`` what the spec says of
    the shape's origin, ``tags`` the groups that a report gives means over. ``spec`` holds the
    fields that state the workload; ``options`` those of ``trials``, ``seed``, ``early_stopping``,
    ``timeout_s`` and ``effort`` that the spec gives. ``weight`` says how much its time counts
    beside that of other tasks.
    """

    id: str
    workload: Workload
    where: str
    source: str | None = None
    tags: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def op(self) -> Mapping[str, Any] | None:
        """The fields of a named operator; None for a workload stated as an expression."""
        return self.spec if "op" in self.spec else None
