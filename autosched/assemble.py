"""Picks the concrete classes of a run by their names. The only module that does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from search_space import target as targets
from search_space.target import Target

#: The hardware data taken on a machine without a GPU.
DEFAULT_TARGET = "h200"


class UnknownName(ValueError):
    """A name that nothing here goes by; the message names the nearest and all that exist."""


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for a name of the kind ``what`` that is none of ``known``."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {near[0]}" if near else ""
    return UnknownName(f"{what} {name!r} is not known{hint}; known: {', '.join(names)}")


def choose_target(name: str | None, gpu_name: str | None = None) -> Target:
    """Return the target called ``name``; without a name the GPU's own, without a GPU h200.

    ``gpu_name`` is what the driver calls the GPU. Raises UnknownName, also for a GPU that no
    target describes.
    """
    if name is not None:
        if name not in targets.names():
            raise unknown("target", name, targets.names())
        return targets.load(name)
    if gpu_name is None:
        return targets.load(DEFAULT_TARGET)
    for known in map(targets.load, targets.names()):
        if gpu_name in known.device_names:
            return known
    raise UnknownName(
        f"no target describes {gpu_name!r}; name the nearest with --target: "
        f"{', '.join(targets.names())}"
    )
