"""How a step says no: the step, what it asked for, and what is the case."""

from __future__ import annotations

from typing import NoReturn

from search_space.steps import Step


class IllegalStep(ValueError):
    """A step that may not apply to its nest, or a nest that steps left unfinished."""


def refuse(step: Step, reason: str) -> NoReturn:
    """Raise IllegalStep for ``step``."""
    raise IllegalStep(f"{type(step).__name__}: {reason}")
