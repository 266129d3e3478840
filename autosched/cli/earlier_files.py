"""Earlier measurements, from what a command names: logs, landscape files, shipped landscapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from autosched.cli.output import Output
from autosched.landscape.form import SUFFIX as LANDSCAPE
from autosched.landscape.landscape import load
from autosched.tune import earlier
from autosched.tune.earlier import Earlier
from measure.log import read
from search_space.target import Target


def read_all(output: Output, names: Iterable[str], target: Target) -> Earlier:
    """Return what they tell of ``target``; say what is skipped.

    Raises BadLandscape, StorageError.
    """
    found = Earlier((), 0)
    for name in names:
        found += _read(output, name, target)
    return found


def _read(output: Output, name: str, target: Target) -> Earlier:
    """Return what a log, a file of a landscape or a shipped landscape tells."""
    path = Path(name)
    if path.exists() and not name.endswith(LANDSCAPE):
        contents = read(path)
        for damage in contents.damage:
            output.say(f"{path}:{damage.line}: {damage.reason}; skipped")
        return earlier.of_log(contents.records, target)
    landscape = load(name)
    if landscape.target.name != target.name:
        output.say(f"{name}: of {landscape.target.name}, not of {target.name}; skipped")
        return Earlier((), len(landscape.points))
    return earlier.of_landscape(landscape)
