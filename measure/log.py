"""The log: one checksummed line per record, appended and synced, read back with every damage named.

Knows nothing of what records say beyond their form. A line is ``{"crc":"8 hex","rec":{...}}``,
the CRC-32 taken over the raw bytes of the record. Writers append one line by one system call,
under a lock that the kernel releases if they die, and repair a torn tail first; readers change
nothing, skip what is damaged and say where and why.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from measure.closing import Closing
from measure.disk import NETWORK_FILESYSTEMS, Disk, StorageError, filesystem
from measure.record import (
    VERSION,
    AnyRecord,
    FinalRecord,
    TrialRecord,
    from_json,
    to_json,
)

_PREFIX = b'{"crc":"'
_LINE = re.compile(rb'\{"crc":"([0-9a-f]{8})","rec":(\{.*\})\}', re.DOTALL)
_LOCK_TIMEOUT_S = 30.0
#: No line of ours comes near this; a tail is looked for this far back.
_LONGEST_LINE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """A line, counted from 1, that holds no readable record, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a log holds: the records in order, and what could not be read."""

    records: tuple[AnyRecord, ...]
    damage: tuple[Damage, ...]

    @property
    def trials(self) -> tuple[TrialRecord, ...]:
        """The attempts among the records."""
        return tuple(r for r in self.records if isinstance(r, TrialRecord))


class Unreadable(ValueError):
    """A line that is no record; the message is the reason of its Damage."""


def line_of(record: AnyRecord) -> bytes:
    """Return the line of a record, its newline included."""
    raw = to_json(record)
    return b'{"crc":"%08x","rec":%s}\n' % (zlib.crc32(raw), raw)


def read(path: Path | str) -> LogContents:
    """Read a log. Raises StorageError where the file itself cannot be read."""
    path = Path(path)
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise StorageError(path, "cannot be read", error) from error


def check(path: Path | str) -> tuple[Damage, ...]:
    """Return the damage of a log, none for a sound one. Raises StorageError."""
    return read(path).damage


def parse(data: bytes) -> LogContents:
    """Read the bytes of a log. A blank line is no damage; two fused lines are taken apart."""
    records: list[AnyRecord] = []
    damage: list[Damage] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        for piece in _pieces(line):
            try:
                records.append(_record(piece))
            except Unreadable as error:
                damage.append(Damage(number, str(error)))
    return LogContents(tuple(records), tuple(damage))


def _pieces(line: bytes) -> Iterator[bytes]:
    """Cut a line where records start: where a torn write was followed by another record."""
    starts = [match.start() for match in re.finditer(re.escape(_PREFIX), line)]
    bounds = [*({0} | set(starts)), len(line)]
    bounds.sort()
    for start, end in pairwise(bounds):
        piece = line[start:end].rstrip(b"\r \t")
        if piece:
            yield piece


def _record(piece: bytes) -> AnyRecord:
    """Read one line; raises Unreadable."""
    match = _LINE.fullmatch(piece)
    if match is None:
        torn = piece.startswith(_PREFIX) and not piece.endswith(b"}")
        raise Unreadable("a torn line" if torn else "not a line of a log")
    checksum, raw = match.groups()
    if zlib.crc32(raw) != int(checksum, 16):
        raise Unreadable("the checksum does not match")
    check_form(raw)
    try:
        return from_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unreadable(f"{where}: {first['msg']}") from error


def check_form(raw: bytes) -> None:
    """Refuse what JSON readers disagree about, and versions to come."""
    try:
        data = json.loads(raw, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from error
    version = data.get("version")
    if type(version) is int and version > VERSION:
        raise Unreadable(f"version {version} is of a later autosched; this one reads {VERSION}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"the key {twice[:40]!r} occurs twice")
    return held


def _refuse_constant(name: str) -> None:
    raise Unreadable(f"{name} is no number of JSON")


class LogWriter(Closing):
    """Appends records to one log, made if it is missing. A context manager.

    Any number of processes may write to one log on a local filesystem. Opening repairs a torn
    tail. Raises StorageError where the folder is missing or read-only, on a network filesystem,
    and on a file that is no log.
    """

    def __init__(self, path: Path | str, disk: Disk | None = None) -> None:
        self.path = Path(path)
        self._disk = disk or Disk()
        kind = filesystem(self.path.parent)
        if kind in NETWORK_FILESYSTEMS:
            raise StorageError(
                self.path, "cannot be a log", f"it lies on {kind}, where appends can tear"
            )
        self._lock = FileLock(f"{self.path}.lock", timeout=_LOCK_TIMEOUT_S)
        try:
            self._descriptor = self._disk.open(self.path)
        except OSError as error:
            raise StorageError(self.path, "cannot be opened for writing", error) from error
        try:
            self._refuse_foreign()
            self._locked(b"")
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, record: AnyRecord) -> None:
        """Append one record and wait until it is on the disk. Raises StorageError.

        After an error the file is as it was before, as far as the disk lets us.
        """
        self._locked(line_of(record))

    def close(self) -> None:
        """Close the file. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _locked(self, line: bytes) -> None:
        """Repair the tail and append ``line``, with every other writer kept out."""
        try:
            with self._lock:
                self._repair_tail()
                if line:
                    self._write(line)
        except Timeout as error:
            wait = f"another writer has held it for {_LOCK_TIMEOUT_S:g} s"
            raise StorageError(self.path, "is locked", wait) from error
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(self.path, "cannot be written", error) from error

    def _write(self, data: bytes) -> None:
        """Write all of ``data`` by one call, or nothing. A short count is a failure."""
        before = self._disk.size(self._descriptor)
        try:
            written = self._disk.write(self._descriptor, data)
            if written != len(data):
                fact = f"only {written} of {len(data)} bytes were taken: is the disk full?"
                raise StorageError(self.path, "cannot be written", fact)
            self._disk.sync(self._descriptor)
        except OSError:
            self._undo(before)
            raise

    def _undo(self, size: int) -> None:
        try:
            self._disk.truncate(self._descriptor, size)
        except OSError:
            # The next writer repairs what is left.
            return

    def _repair_tail(self) -> None:
        """End a whole last line that lacks its newline; cut one that a writer left unfinished."""
        size = self._disk.size(self._descriptor)
        if size == 0 or self._disk.read(self._descriptor, 1, size - 1) == b"\n":
            return
        start = max(0, size - _LONGEST_LINE_BYTES)
        tail = self._disk.read(self._descriptor, size - start, start)
        tail = tail[tail.rfind(b"\n") + 1 :]
        if _is_whole(tail) or not tail.startswith(_PREFIX[: len(tail)]):
            # What was never a line of ours stays, as a damaged line that readers name.
            self._disk.write(self._descriptor, b"\n")
        else:
            self._disk.truncate(self._descriptor, size - len(tail))
        self._disk.sync(self._descriptor)

    def _refuse_foreign(self) -> None:
        """Refuse to append to a file that does not look like a log at all."""
        head = self._disk.read(self._descriptor, 1 << 20, 0)
        starts = _PREFIX[: max(1, min(len(head), len(_PREFIX)))]
        if head.strip() and starts not in head:
            raise StorageError(self.path, "cannot be appended to", "it is not a log of autosched")


def _is_whole(piece: bytes) -> bool:
    try:
        _record(piece)
    except Unreadable:
        return False
    return True


def best(
    records: Iterable[AnyRecord], *, predicted: bool = False
) -> dict[tuple[str, str], TrialRecord]:
    """Return the best trial by workload key and target name, in whatever order the lines lie.

    Only trials with evidence count; ``predicted`` lets in those that a model made up. A
    quarantined time yields to any other of its task, whichever is the shorter. The winner of the
    last final comparison counts with the time it was compared at, and the trials before it no
    more: they were compared. Of equal trials the earliest counts. Before and earliest go by the
    time in the records; lines decide only among records of one millisecond.
    """
    held: dict[tuple[str, str], tuple[tuple[bool, float], TrialRecord]] = {}
    trials: dict[tuple[str, str, str], TrialRecord] = {}
    for record in sorted(records, key=lambda record: record.provenance.time):
        if isinstance(record, TrialRecord) and _counts(record, predicted):
            task = (record.workload.key, record.target)
            trials[*task, record.program] = record
            rank = (record.quarantined, record.latency_us or 0.0)
            if task not in held or rank < held[task][0]:
                held[task] = (rank, record)
        elif isinstance(record, FinalRecord) and record.best is not None:
            task = (record.workload.key, record.target)
            winner = record.entrants[record.best] if record.best < len(record.entrants) else None
            trial = trials.get((*task, winner.program)) if winner else None
            if winner and winner.timing and trial:
                held[task] = ((False, winner.timing.latency_us), trial)
    return {task: trial for task, (_, trial) in held.items()}


def _counts(record: TrialRecord, predicted: bool) -> bool:
    if not record.ok:
        return False
    return predicted if record.predicted else record.evidence is not None
