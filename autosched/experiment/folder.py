"""The folder of an experiment: where each file lies, and how it is written and read.

Knows no strategy and no statistics. A file is written beside its place and moved there, so that
what is there is whole.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.experiment.error import BadFolder
from measure.disk import StorageError

RESOLVED, VERSIONS, SUMMARY = "resolved.yaml", "versions.json", "summary.json"
RUNS, TABLES, REPORT = "runs", "tables", "report.html"
#: What differs from rerun to rerun; no comparison looks at it.
TIMINGS = "timings.jsonl"
Line = Mapping[str, Any]
Row = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class RunName:
    """Which run: where, which arm, which seed."""

    landscape: str
    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.landscape}/{self.arm}/{self.seed}"


@dataclass(frozen=True)
class Folder:
    """An experiment's folder at ``path``."""

    path: Path

    def run_path(self, name: RunName) -> Path:
        """Return the file of a run."""
        return self.path / RUNS / name.landscape / name.arm / f"{name.seed}.jsonl"

    def has(self, name: RunName) -> bool:
        """Whether a run is done."""
        return self.run_path(name).is_file()

    def write_run(self, name: RunName, lines: Sequence[Line]) -> None:
        """Write the lines of a run that is done. Raises StorageError."""
        self._write(self.run_path(name), "".join(map(_text, lines)))

    def read_run(self, name: RunName) -> list[dict[str, Any]]:
        """Return the lines of a run. Raises BadFolder."""
        path = self.run_path(name)
        try:
            return [json.loads(line) for line in self.read(path).splitlines()]
        except ValueError as error:
            raise BadFolder(path, f"is not a run: {error}") from error

    def runs(self) -> list[RunName]:
        """Return the runs that are there, in order. Raises BadFolder on a file that is none."""
        found = []
        for path in (self.path / RUNS).glob("*/*/*.jsonl"):
            if not path.stem.isdecimal():
                raise BadFolder(path, "is not the run of a seed")
            found.append(RunName(path.parent.parent.name, path.parent.name, int(path.stem)))
        return sorted(found)

    def write_table(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Write a table as CSV; what a row lacks is empty. Raises StorageError."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
        self._write(self.path / TABLES / f"{name}.csv", stream.getvalue())

    def read_table(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a table, none where there is no such table."""
        path = self.path / TABLES / f"{name}.csv"
        return list(csv.DictReader(io.StringIO(self.read(path)))) if path.is_file() else []

    def tables(self) -> list[str]:
        """Return the names of the tables that are there."""
        return sorted(path.stem for path in (self.path / TABLES).glob("*.csv"))

    def write_json(self, name: str, value: object) -> None:
        """Write a file of JSON. Raises StorageError."""
        self.write_text(name, json.dumps(value, indent=1, allow_nan=False) + "\n")

    def read_json(self, name: str) -> Any:
        """Return what a file of JSON holds. Raises BadFolder."""
        path = self.path / name
        try:
            return json.loads(self.read(path))
        except ValueError as error:
            raise BadFolder(path, f"is not JSON: {error}") from error

    def write_text(self, name: str, text: str) -> None:
        """Write a file. Raises StorageError."""
        self._write(self.path / name, text)

    def append_timings(self, lines: Sequence[Line]) -> None:
        """Add to the file of what was measured of the experiment itself. Raises StorageError."""
        path = self.path / TIMINGS
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                stream.write("".join(map(_text, lines)))
        except OSError as error:
            raise StorageError(path, "cannot be written", error) from error

    def read_timings(self) -> Iterator[dict[str, Any]]:
        """Yield what was measured of the experiment itself; what cannot be read is left out."""
        path = self.path / TIMINGS
        for line in self.read(path).splitlines() if path.is_file() else ():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def read(self, path: Path) -> str:
        """Return the text of a file of the folder. Raises BadFolder where there is none."""
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            raise BadFolder(path, "is missing") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadFolder(path, f"cannot be read: {error}") from error

    def _write(self, path: Path, text: str) -> None:
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageError(path, "cannot be written", error) from error


def _text(line: Line) -> str:
    return json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"


def _cell(value: Any) -> str:
    """Write a value so that reading it back gives it again; nothing for None and what is not
    finite."""
    if value is None or value in (float("inf"), float("-inf")) or value != value:
        return ""
    if isinstance(value, float):
        return repr(float(value))
    return str(value)
