"""The file of a landscape: one line of head, a line for each schedule, a line that closes it.

Lines are JSON, the whole is compressed (xz). The last line holds the SHA-256 of all bytes before
it, so that a file that was cut short, or in which anything changed, is refused.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from measure.disk import StorageError
from measure.record import (
    Count,
    EvidenceText,
    FactsText,
    Failing,
    Provenance,
    Seconds,
    Success,
    TimingText,
    WorkloadText,
)

#: The version of the form that this module writes and reads.
FORM: Literal[1] = 1
SUFFIX = ".landscape.xz"
#: Unpacked, no landscape comes near this: a file that unpacks to more is refused.
LARGEST_BYTES = 1 << 28
P = TypeVar("P", bound=BaseModel)


class BadLandscape(ValueError):
    """A file that holds no sound landscape; the message names it, the line and the fact."""

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(f"{path}: {fact}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Rule(_Part):
    """Which schedules were measured.

    ``sampled``: half uniformly over the legal space, half around the best. ``complete``: every
    legal one of ``sketches`` whose choices have the values in ``fixed``.
    """

    kind: Literal["sampled", "complete"]
    seed: Count
    sketches: tuple[str, ...] = ()
    fixed: dict[str, tuple[int, ...]] = Field(default_factory=dict)


class SketchText(_Part):
    """A sketch by its name, and its choices in the order in which lines give their values."""

    name: str
    choices: tuple[str, ...]


class Head(_Part):
    """What was recorded, on what, how and when. ``spec`` states the workload as plain data.

    ``library`` is the time of the library, taken in turns with the best schedules at the end;
    None where none could compute the workload. ``search_s`` is how long measuring took with
    ``builders`` processes, in seconds. ``device`` is "model" where times were predicted.
    """

    kind: Literal["landscape"] = "landscape"
    form: Literal[1] = FORM
    spec: dict[str, Any]
    workload: WorkloadText
    device: str
    target: str
    gpu: str
    rendering_version: Count
    rule: Rule
    sketches: tuple[SketchText, ...]
    library: TimingText | None
    builders: Count
    search_s: Seconds
    command: str
    provenance: Provenance


class Line(_Part):
    """One schedule and what came of it. ``sketch`` counts from 0 in the head's list; ``program``
    is the fingerprint, empty where the schedule did not render. ``finals_us`` are its times in
    the closing comparison, in turns with others, where it took part."""

    sketch: Count
    choices: tuple[int, ...]
    program: str
    measurement: Annotated[Success | Failing, Field(discriminator="status")]
    facts: FactsText | None = None
    evidence: EvidenceText | None = None
    finals_us: tuple[float, ...] = ()


class _Tail(_Part):
    kind: Literal["end"] = "end"
    lines: Count
    sha256: str


def pack(head: Head, lines: Sequence[Line]) -> bytes:
    """Return the bytes of a file."""
    body = b"".join(_line(part) for part in (head, *lines))
    tail = _Tail(lines=len(lines), sha256=hashlib.sha256(body).hexdigest())
    # No integrity check of the container's: the tail has a better one, and files stay the same.
    return lzma.compress(body + _line(tail), check=lzma.CHECK_NONE, preset=9)


def write(path: Path, head: Head, lines: Sequence[Line]) -> None:
    """Write a file whole or not at all. Raises StorageError."""
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(pack(head, lines))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(path, "cannot be written", error) from error


def read(path: Path) -> tuple[Head, tuple[Line, ...]]:
    """Read a file. Raises BadLandscape, and StorageError where it cannot be read at all."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise StorageError(path, "cannot be read", error) from error
    body, tail = _checked(path, _unpacked(path, packed))
    texts = body.splitlines()
    if not texts or len(texts) - 1 != tail.lines:
        raise BadLandscape(path, f"it holds {len(texts) - 1} schedules, not {tail.lines}")
    head = _part(Head, path, 1, texts[0])
    return head, tuple(_lines(path, head, texts[1:]))


def _line(part: BaseModel) -> bytes:
    return part.model_dump_json(exclude_defaults=False, ensure_ascii=True).encode("ascii") + b"\n"


def _unpacked(path: Path, packed: bytes) -> bytes:
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        data = unpacker.decompress(packed, LARGEST_BYTES)
    except lzma.LZMAError as error:
        raise BadLandscape(path, f"not a landscape, or damaged ({error})") from error
    if not unpacker.eof:
        raise BadLandscape(path, "it is cut short, or larger than any landscape")
    return data


def _checked(path: Path, data: bytes) -> tuple[bytes, _Tail]:
    """Return the bytes before the last line, and that line, which holds their checksum."""
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    body, last = data[:start], data[start:].strip()
    try:
        tail = _Tail.model_validate_json(last)
    except ValidationError:
        raise BadLandscape(path, "its last line does not close it: it is cut short") from None
    if hashlib.sha256(body).hexdigest() != tail.sha256:
        raise BadLandscape(path, "the checksum does not match: something in it was changed")
    return body, tail


def _part(kind: type[P], path: Path, number: int, text: bytes) -> P:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        form = _form(text)
        if form not in (None, FORM):
            raise BadLandscape(path, f"its form is {form!r}, and {FORM} is what is read") from None
        where = ".".join(map(str, first["loc"]))
        raise BadLandscape(path, f"line {number}: {where}: {first['msg']}") from None


def _form(text: bytes) -> Any:
    try:
        held = json.loads(text)
    except ValueError:
        return None
    return held.get("form") if isinstance(held, dict) else None


def _lines(path: Path, head: Head, texts: Iterable[bytes]) -> Iterator[Line]:
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for number, text in enumerate(texts, 2):
        line = _part(Line, path, number, text)
        if line.sketch >= len(head.sketches):
            raise BadLandscape(path, f"line {number}: sketch {line.sketch} is not in the head")
        named = head.sketches[line.sketch]
        if len(line.choices) != len(named.choices):
            counts = f"{len(line.choices)} values for {len(named.choices)} choices"
            raise BadLandscape(path, f"line {number}: {counts} of {named.name}")
        if (line.sketch, line.choices) in seen:
            raise BadLandscape(path, f"line {number}: the schedule stands there before")
        seen.add((line.sketch, line.choices))
        yield line
