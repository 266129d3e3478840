"""Whether two folders of experiments hold the same, and where they first differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.experiment.error import BadFolder
from autosched.experiment.folder import RESOLVED, SUMMARY, VERSIONS, Folder, RunName
from autosched.experiment.run import without_files
from autosched.spec import SpecError, yaml_file

#: Fields of a line that are named where they differ.
SHOWN = 4


@dataclass(frozen=True)
class Difference:
    """What differs, in a sentence; ``run`` and ``trial`` where it is in a run."""

    part: str
    fact: str
    run: str | None = None
    trial: int | None = None

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"part": self.part, "run": self.run, "trial": self.trial, "fact": self.fact}


@dataclass(frozen=True)
class Verdict:
    """The differences, the first of each part; and notes on what may be why."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Whether there is no difference."""
        return not self.differences


def compare(first: Path, second: Path) -> Verdict:
    """Compare two folders: what was asked for, every run, every table, the summary.

    Versions are no difference, but a note on one; neither are timings, and where landscapes lie.
    Raises BadFolder where either is no folder of an experiment.
    """
    a, b = Folder(first), Folder(second)
    parts = (_resolved(a, b), _runs(a, b), _tables(a, b), _summary(a, b))
    found = [next(part, None) for part in parts]
    return Verdict(tuple(d for d in found if d is not None), tuple(_versions(a, b)))


def _versions(a: Folder, b: Folder) -> Iterator[str]:
    one, two = a.read_json(VERSIONS), b.read_json(VERSIONS)
    for name in dict.fromkeys((*one, *two)):
        if one.get(name) != two.get(name):
            yield f"{name}: {one.get(name)} and {two.get(name)}"


def _resolved(a: Folder, b: Folder) -> Iterator[Difference]:
    one, two = _resolved_data(a), _resolved_data(b)
    for name in dict.fromkeys((*one, *two)):
        if without_files(one.get(name)) != without_files(two.get(name)):
            yield Difference(
                RESOLVED, f"{name}: {_short(one.get(name))} and {_short(two.get(name))}"
            )


def _resolved_data(folder: Folder) -> Mapping[str, Any]:
    path = folder.path / RESOLVED
    if not path.is_file():
        raise BadFolder(folder.path, f"is no folder of an experiment: it has no {RESOLVED}")
    try:
        data = yaml_file.read(str(path)).data
    except SpecError as error:
        raise BadFolder(path, f"cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise BadFolder(path, "states no experiment")
    return data


def _runs(a: Folder, b: Folder) -> Iterator[Difference]:
    one, two = a.runs(), b.runs()
    for name in sorted({*one, *two}):
        if name not in one or name not in two:
            where = b.path if name in one else a.path
            yield Difference("runs", f"is not in {where}", str(name))
        else:
            yield from _run(a, b, name)


def _run(a: Folder, b: Folder, name: RunName) -> Iterator[Difference]:
    if a.read(a.run_path(name)) == b.read(b.run_path(name)):
        return
    one, two = a.read_run(name), b.read_run(name)
    for left, right in zip(one, two, strict=False):
        if left != right:
            keys = [k for k in dict.fromkeys((*left, *right)) if left.get(k) != right.get(k)]
            facts = [f"{k} {_short(left.get(k))} and {_short(right.get(k))}" for k in keys[:SHOWN]]
            trial = left.get("trial", right.get("trial"))
            yield Difference("runs", ", ".join(facts), str(name), trial)
            return
    fact = f"{len(one)} lines and {len(two)}" if len(one) != len(two) else "written otherwise"
    yield Difference("runs", fact, str(name))


def _tables(a: Folder, b: Folder) -> Iterator[Difference]:
    one, two = a.tables(), b.tables()
    for name in sorted({*one, *two}):
        if name not in one or name not in two:
            yield Difference(f"tables/{name}.csv", f"is not in {b.path if name in one else a.path}")
            continue
        rows = a.read_table(name), b.read_table(name)
        if rows[0] != rows[1]:
            yield Difference(f"tables/{name}.csv", _rows(*rows))


def _rows(one: Sequence[Mapping[str, str]], two: Sequence[Mapping[str, str]]) -> str:
    for n, (left, right) in enumerate(zip(one, two, strict=False), 2):
        if left != right:
            keys = [k for k in dict.fromkeys((*left, *right)) if left.get(k) != right.get(k)]
            facts = [f"{k} {left.get(k)!r} and {right.get(k)!r}" for k in keys[:SHOWN]]
            return f"line {n}: {', '.join(facts)}"
    return f"{len(one)} rows and {len(two)}"


def _summary(a: Folder, b: Folder) -> Iterator[Difference]:
    present = [(folder.path / SUMMARY).is_file() for folder in (a, b)]
    if present == [False, False]:
        return
    if False in present:
        missing = (a, b)[present.index(False)]
        yield Difference(SUMMARY, f"is not in {missing.path}: it was interrupted")
        return
    one, two = a.read_json(SUMMARY), b.read_json(SUMMARY)
    for name in dict.fromkeys((*one, *two)):
        if one.get(name) != two.get(name):
            yield Difference(
                SUMMARY, f"{name}: {_short(one.get(name))} and {_short(two.get(name))}"
            )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
