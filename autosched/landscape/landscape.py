"""A landscape in today's space: recorded schedules as choices of sketches that exist now.

Knows no strategy and no device. Nothing is rendered: what a file says of a schedule is its sketch
and its choices, and these are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from autosched.landscape.form import SUFFIX, BadLandscape, Head, Line, read
from autosched.spec import SpecError, from_data
from measure.measurement import Measurement, Timed
from measure.record import measurement_of
from search_space import target as targets
from search_space.rules import NoSketch, sketches
from search_space.sketch import Sketch
from search_space.target import Target
from search_space.workload import Workload

#: A sketch's name and the values of its choices in order.
Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Point:
    """A recorded schedule: its sketch as it is now, its choices in the order of ``sketch.names``,
    the fingerprint of its program then (empty where it did not render), and what came of it.

    ``finals_us`` are its times in the closing comparison, if it took part.
    """

    sketch: Sketch
    choices: tuple[int, ...]
    fingerprint: str
    outcome: Measurement
    finals_us: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        """What tells it from others of the landscape."""
        return self.sketch.name, self.choices

    @property
    def latency_us(self) -> float | None:
        """The median time in microseconds; None if it failed."""
        return self.outcome.latency_us if isinstance(self.outcome, Timed) else None


@dataclass(frozen=True)
class Landscape:
    """What came of many schedules of one workload on one GPU. ``left_out`` counts recorded
    schedules that are not in today's space."""

    name: str
    head: Head
    workload: Workload
    target: Target
    points: tuple[Point, ...]
    left_out: int

    @cached_property
    def by_key(self) -> Mapping[Key, Point]:
        """The points by their keys."""
        return {point.key: point for point in self.points}

    def outcome(self, key: Key) -> Measurement:
        """Return what came of a schedule; KeyError where it was not recorded."""
        return self.by_key[key].outcome

    @cached_property
    def sketches(self) -> Sequence[Sketch]:
        """The sketches that have points, in the order in which rules give them."""
        named = {point.sketch.name: point.sketch for point in self.points}
        known = [sketch.name for sketch in sketches(self.workload, self.target)]
        return [named[name] for name in known if name in named]

    @property
    def is_measured(self) -> bool:
        """Whether times were taken on a GPU, and not made up by a model."""
        return self.head.device == "cuda"

    @cached_property
    def optimum_us(self) -> float:
        """The least time of an undisturbed device, in microseconds; infinite if all failed."""
        times = [
            point.outcome.latency_us
            for point in self.points
            if isinstance(point.outcome, Timed) and not point.outcome.quarantined
        ]
        return min(times, default=float("inf"))


def load(name: str | Path) -> Landscape:
    """Return the landscape of a file, or the shipped one of that name.

    Raises:
        BadLandscape: the file is none, is damaged, or none is shipped under that name.
        measure.disk.StorageError: it cannot be read.
    """
    path = shipped(str(name)) or Path(name)
    if not path.exists() and str(name) == Path(name).name and not str(name).endswith(SUFFIX):
        raise BadLandscape(path, f"no such file, and none of {', '.join(names())} that are shipped")
    head, lines = read(path)
    return place(path, head, lines)


def names() -> tuple[str, ...]:
    """Return the names of the landscapes that are shipped, in alphabetical order."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in _data()))


def shipped(name: str) -> Path | None:
    """Return the file of the shipped landscape called ``name``, or None."""
    return next((path for path in _data() if path.name == name + SUFFIX), None)


def place(path: Path, head: Head, lines: Sequence[Line]) -> Landscape:
    """Look the schedules of a file up in today's space. Raises BadLandscape.

    A schedule is left out where its sketch is gone, or has other choices or other values of them.
    Limits are not asked: it was measured, whatever they hold of it now.
    """
    try:
        workload = from_data(str(path), head.spec).workload
    except SpecError as error:
        raise BadLandscape(path, f"its workload is not understood: {error}") from error
    if workload.key != head.workload.key:
        keys = f"{head.workload.key} then, {workload.key} now"
        raise BadLandscape(path, f"its spec states another workload than was measured: {keys}")
    if head.target not in targets.names():
        raise BadLandscape(path, f"no target is called {head.target!r}")
    target = targets.load(head.target)
    try:
        now = {sketch.name: sketch for sketch in sketches(workload, target)}
    except NoSketch as error:
        raise BadLandscape(path, str(error)) from error
    found = [_point(head, line, now) for line in lines]
    points = tuple(point for point in found if point is not None)
    name = path.name.removesuffix(SUFFIX)
    return Landscape(name, head, workload, target, points, len(found) - len(points))


def _point(head: Head, line: Line, now: Mapping[str, Sketch]) -> Point | None:
    named = head.sketches[line.sketch]
    sketch = now.get(named.name)
    if sketch is None or set(sketch.names) != set(named.choices):
        return None
    given = dict(zip(named.choices, line.choices, strict=True))
    if not all(given[choice.name] in choice.domain for choice in sketch.choices):
        return None
    choices = tuple(given[name] for name in sketch.names)
    outcome = measurement_of(line.measurement, line.facts, line.evidence)
    return Point(sketch, choices, line.program, outcome, line.finals_us)


def _data() -> Sequence[Path]:
    folder = resources.files("autosched.landscape").joinpath("data")
    if not folder.is_dir():
        return ()
    return [Path(str(item)) for item in folder.iterdir() if item.name.endswith(SUFFIX)]
