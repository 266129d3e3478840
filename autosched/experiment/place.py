"""Landscapes by what a file or a command calls them. Knows no arm and no run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autosched import landscape
from autosched.experiment.plan import Place
from autosched.experiment.schema import LandscapeFields, ModelledFields
from autosched.landscape import Landscape
from autosched.landscape.form import SUFFIX, BadLandscape
from autosched.landscape.synthetic import synthetic
from autosched.spec import SpecError
from autosched.spec.explain import show, unknown
from measure.disk import StorageError

#: The word that stands for every landscape that is shipped.
SHIPPED = "shipped"


class NoLandscape(ValueError):
    """A landscape that cannot be had; the message says why."""


def landscapes_named(names: tuple[str, ...]) -> tuple[Place, ...]:
    """Return the landscapes that a command names. Raises SpecError."""
    try:
        return tuple(map(_place, names))
    except NoLandscape as error:
        raise SpecError(f"--landscape: {error}") from error


def landscapes_of(wish: str | LandscapeFields, beside: Path) -> Iterator[Place]:
    """Yield what a file in the folder ``beside`` means by an entry. Raises NoLandscape."""
    if isinstance(wish, LandscapeFields):
        place = _place(str(beside / wish.file) if wish.file else wish.name)
        if wish.sha256 is not None and place.sha256 != wish.sha256:
            fact = f"{wish.name}: its SHA-256 is {place.sha256[:12]}.., not {wish.sha256[:12]}.."
            raise NoLandscape(f"{fact}: it is not the landscape that this was run on")
        yield replace(place, name=wish.name)
    elif wish == SHIPPED:
        if not landscape.names():
            raise NoLandscape("none are shipped")
        yield from map(_place, landscape.names())
    else:
        named = wish in landscape.names() or not _is_file_name(wish)
        yield _place(wish if named else str(beside / wish))


def open_landscape(place: Place) -> Landscape:
    """Return the landscape of ``place``. Raises SpecError where it is none, or another by now."""
    path = Path(place.file) if place.file else landscape.shipped(place.name)
    if path is None:
        raise SpecError(f"{place.name}: no landscape of that name is shipped")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != place.sha256:
            raise SpecError(f"{path}: was changed while the experiment ran")
        return replace(landscape.load(path), name=place.name)
    except BadLandscape as error:
        raise SpecError(str(error)) from error
    except OSError as error:
        raise StorageError(path, "cannot be read", error) from error


def make_landscape(place: Place, plan: ModelledFields) -> Landscape:
    """Return a made-up landscape of the workload of ``place``. Raises NoSketch."""
    head, lines = synthetic(place.spec or {}, plan.schedules, most_sketches=plan.sketches)
    return landscape.place(Path(place.name), head, lines)


def _is_file_name(name: str) -> bool:
    return name != Path(name).name or name.endswith(SUFFIX)


def _place(name: str) -> Place:
    """Return the place of a landscape by its name or file. Raises NoLandscape."""
    shipped = landscape.shipped(name)
    path = shipped or Path(name)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        if _is_file_name(name):
            raise NoLandscape(f"{name}: no such file") from None
        raise NoLandscape(f"{show(name)} is {unknown(name, landscape.names())}") from None
    title = path.name.removesuffix(SUFFIX)
    return Place(title, "" if shipped else str(path.resolve()), digest)
