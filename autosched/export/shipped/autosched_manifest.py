"""What a manifest of an exported folder says, read and checked. Standard library only.

Nothing is loaded and nothing is run here. Everything that the manifest says is checked before any
of it is used, and every file is held against its hash: that finds damage. It is no proof of where
a folder comes from.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

#: The form of manifest that this file reads.
FORM = 1
MANIFEST = "manifest.json"
#: The file of the folder through which kernels are loaded and started.
DRIVER = "autosched_cuda.py"
#: Bounds on what a manifest may say: bytes of files, lengths of lists, elements of tensors.
MOST_BYTES, MOST_ENTRIES, MOST_ELEMENTS = 1 << 26, 4096, 1 << 48
DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3", "int8", "int32")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_HASH = re.compile(r"[0-9a-f]{64}")
_GRID = ((1 << 31) - 1, 65535, 65535)


class ExportError(Exception):
    """The root of what this file raises on purpose."""


class BadManifest(ExportError, ValueError):
    """A folder that is not as it was exported: names the place, the wish and the fact."""


@dataclass(frozen=True)
class Buffer:
    """A tensor that kernels read or write; shape and strides in elements.

    A workspace with ``zeroed`` or ``kept_zero`` is cleared before each call, since each call has
    its own.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    alignment_bytes: int
    zeroed: bool
    kept_zero: bool
    constant: bool

    @cached_property
    def elements(self) -> int:
        """How many elements lie from the first to the last, gaps counted."""
        if 0 in self.shape:
            return 0
        return 1 + sum((e - 1) * s for e, s in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True)
class Kernel:
    """One function of one binary, with its launch plan. What ``prepares`` reads constants alone.

    Each argument is a buffer, and where it goes by a descriptor, the fields of that.
    """

    file: str
    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    prepares: bool
    arguments: tuple[tuple[str, Mapping[str, Any] | None], ...]


@dataclass(frozen=True)
class Workload:
    """One exported computation. ``evidence`` says what was measured of it, and how it was held
    against a reference."""

    name: str
    key: str
    label: str
    text: str
    program: str
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    evidence: Mapping[str, Any] = field(repr=False)

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The caller's inputs, in the order of a call."""
        return tuple(b for b in self.buffers if b.role == "input")

    @cached_property
    def output(self) -> Buffer:
        """The output."""
        return next(b for b in self.buffers if b.role == "output")

    @property
    def prepared(self) -> tuple[Buffer, ...]:
        """The constant inputs that kernels copy into a layout of their own."""
        read = {name for k in self.kernels if k.prepares for name, _ in k.arguments}
        return tuple(b for b in self.inputs if b.name in read)


@dataclass(frozen=True)
class Manifest:
    """What a folder holds, and for which GPU. ``arch`` is the compute capability, as 90."""

    autosched: str
    target: str
    arch: int
    gpus: tuple[str, ...]
    multiprocessors: int
    shared_bytes: int
    files: Mapping[str, str]
    workloads: tuple[Workload, ...]


def read(folder: str | Path) -> Manifest:
    """Read and check the manifest alone; raises BadManifest, or OSError."""
    path = Path(folder) / MANIFEST
    if path.stat().st_size > MOST_BYTES:
        raise BadManifest(f"{path}: has {path.stat().st_size} bytes, at most {MOST_BYTES} are read")
    raw = path.read_bytes()
    try:
        data = json.loads(raw, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
        return _manifest(_Value(data, ""))
    except BadManifest as error:
        raise BadManifest(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"{path}: is not JSON: {error}") from error


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's content, all but its own field ``sha256``."""
    rest = {name: value for name, value in data.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def binaries(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """Hold every file against its hash; return the binaries."""
    held: dict[str, bytes] = {}
    for name, wish in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise BadManifest(f"{path}: the manifest names it, and it is missing")
        if path.stat().st_size > MOST_BYTES:
            raise BadManifest(f"{path}: has more than {MOST_BYTES} bytes")
        raw = path.read_bytes()
        fact = hashlib.sha256(raw).hexdigest()
        if fact != wish:
            raise BadManifest(
                f"{path}: is damaged or was changed: SHA-256 {fact[:16]}..., "
                f"the manifest says {wish[:16]}..."
            )
        if name.endswith(".cubin"):
            held[name] = raw
    return held


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BadManifest("a name stands twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise BadManifest(f"{name} is no number")


@dataclass(frozen=True)
class _Value:
    """Plain data and its place in the manifest, for errors."""

    data: Any
    place: str

    def fail(self, wish: str) -> BadManifest:
        fact = repr(self.data)
        shown = fact if len(fact) <= 60 else f"{fact[:57]}..."
        return BadManifest(f"{self.place or 'it'} must be {wish}, and is {shown}")

    def fields(self, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, _Value]:
        if not isinstance(self.data, dict):
            raise self.fail("an object")
        for name in names:
            if name not in self.data:
                raise BadManifest(f"{self._within(name)} is missing")
        for name in self.data:
            if name not in names and name not in optional:
                raise BadManifest(f"{self._within(name[:60])} is not known")
        return {name: _Value(value, self._within(name)) for name, value in self.data.items()}

    def _within(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def entries(self, most: int = MOST_ENTRIES) -> list[_Value]:
        if not isinstance(self.data, list) or len(self.data) > most:
            raise self.fail(f"a list of at most {most}")
        return [_Value(value, f"{self.place}[{i}]") for i, value in enumerate(self.data)]

    def integer(self, low: int, high: int) -> int:
        if type(self.data) is not int or not low <= self.data <= high:
            raise self.fail(f"an integer from {low} to {high}")
        return self.data

    def integers(self, low: int, high: int, most: int = 8) -> tuple[int, ...]:
        return tuple(value.integer(low, high) for value in self.entries(most))

    def text(self, form: re.Pattern[str] | None = None) -> str:
        if not isinstance(self.data, str) or (form is not None and not form.fullmatch(self.data)):
            raise self.fail(f"a text like {form.pattern}" if form else "a text")
        return self.data

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            raise self.fail("true or false")
        return self.data

    def one_of(self, known: Sequence[str]) -> str:
        if self.data not in known:
            raise self.fail(f"one of {', '.join(known)}")
        return str(self.data)


def _manifest(value: _Value) -> Manifest:
    if not isinstance(value.data, dict) or value.data.get("form") != FORM:
        form = value.data.get("form") if isinstance(value.data, dict) else None
        raise BadManifest(f"its form must be {FORM}, and is {str(form)[:20]}")
    held = value.fields(("form", "autosched", "sha256", "target", "files", "workloads"))
    if held["sha256"].text(_HASH) != digest_of(value.data):
        raise BadManifest("is damaged or was changed: its content is not what sha256 says")
    target = held["target"].fields(("name", "arch", "gpus", "multiprocessors", "shared_bytes"))
    files = _files(held["files"])
    if DRIVER not in files:
        raise BadManifest(f"files.{DRIVER} is missing")
    shared_bytes = target["shared_bytes"].integer(0, 1 << 24)
    workloads = tuple(_workload(w, files, shared_bytes) for w in held["workloads"].entries())
    for what in ("name", "key"):
        if len({getattr(w, what) for w in workloads}) < len(workloads):
            raise BadManifest(f"two workloads have one {what}")
    return Manifest(
        held["autosched"].text(),
        target["name"].text(),
        target["arch"].integer(10, 999),
        tuple(gpu.text() for gpu in target["gpus"].entries(64)),
        target["multiprocessors"].integer(1, 1 << 16),
        shared_bytes,
        files,
        workloads,
    )


def _files(value: _Value) -> dict[str, str]:
    if not isinstance(value.data, dict) or len(value.data) > MOST_ENTRIES:
        raise value.fail(f"an object of at most {MOST_ENTRIES} files")
    named = value.fields((), tuple(value.data))
    return {
        _Value(name, "a file's name").text(_FILE): digest.text(_HASH)
        for name, digest in named.items()
    }


def _workload(value: _Value, files: Mapping[str, str], shared_bytes: int) -> Workload:
    names = ("name", "key", "label", "text", "program", "buffers", "kernels", "evidence")
    held = value.fields(names)
    buffers = tuple(map(_buffer, held["buffers"].entries(64)))
    known = {buffer.name: buffer for buffer in buffers}
    if len(known) < len(buffers):
        raise BadManifest(f"{held['buffers'].place}: two have one name")
    if sum(buffer.role == "output" for buffer in buffers) != 1:
        raise BadManifest(f"{held['buffers'].place} must hold one output")
    if all(buffer.role != "input" for buffer in buffers):
        raise BadManifest(f"{held['buffers'].place} must hold an input")
    kernels = tuple(_kernel(k, files, known, shared_bytes) for k in held["kernels"].entries(64))
    if not isinstance(held["evidence"].data, dict):
        raise held["evidence"].fail("an object")
    texts = (held[name].text() for name in ("key", "label", "text", "program"))
    name, evidence = held["name"].text(_NAME), held["evidence"].data
    key, label, text, program = texts
    return Workload(name, key, label, text, program, buffers, kernels, evidence)


def _buffer(value: _Value) -> Buffer:
    flags = ("zeroed", "kept_zero", "constant")
    held = value.fields(("name", "role", "shape", "strides", "dtype", "alignment_bytes", *flags))
    shape = held["shape"].integers(0, MOST_ELEMENTS)
    strides = held["strides"].integers(0, MOST_ELEMENTS)
    alignment = held["alignment_bytes"].integer(1, 4096)
    if alignment & (alignment - 1):
        raise held["alignment_bytes"].fail("a power of two")
    if len(shape) != len(strides):
        raise held["strides"].fail(f"{len(shape)} strides, one for each extent")
    buffer = Buffer(
        held["name"].text(_NAME),
        held["role"].one_of(("input", "output", "workspace")),
        shape,
        strides,
        held["dtype"].one_of(DTYPES),
        alignment,
        *(held[flag].flag() for flag in flags),
    )
    if buffer.role != "workspace" and (buffer.zeroed or buffer.kept_zero):
        raise BadManifest(f"{value.place}: only a workspace is cleared")
    if max(buffer.elements, math.prod(shape)) > MOST_ELEMENTS:
        raise BadManifest(f"{value.place}: a tensor of more than {MOST_ELEMENTS} elements")
    return buffer


def _kernel(
    value: _Value, files: Mapping[str, str], buffers: Mapping[str, Buffer], shared_bytes: int
) -> Kernel:
    plan = ("grid", "threads", "shared_bytes", "prepares")
    held = value.fields(("file", "function", *plan, "arguments"))
    file = held["file"].text(_FILE)
    if file not in files or not file.endswith(".cubin"):
        raise held["file"].fail("a .cubin among the manifest's files")
    grid = held["grid"].entries(3)
    if len(grid) != 3:
        raise held["grid"].fail("a list of 3")
    x, y, z = (n.integer(0, most) for n, most in zip(grid, _GRID, strict=True))
    threads = held["threads"].integer(32, 1024)
    shared = held["shared_bytes"].integer(0, shared_bytes)
    arguments = tuple(_argument(a, buffers) for a in held["arguments"].entries(64))
    function = held["function"].text(_NAME)
    return Kernel(file, function, (x, y, z), threads, shared, held["prepares"].flag(), arguments)


def _argument(value: _Value, buffers: Mapping[str, Buffer]) -> tuple[str, Mapping[str, Any] | None]:
    held = value.fields(("buffer",), ("box",))
    name = held["buffer"].one_of(tuple(buffers))
    if "box" not in held:
        return name, None
    lists, numbers = ("shape", "strides", "block"), ("element_bytes", "element_type", "swizzle")
    box = held["box"].fields((*lists, *numbers))
    least = {"shape": 1, "strides": 0, "block": 1}
    made: dict[str, Any] = {what: box[what].integers(least[what], 1 << 40, 5) for what in lists}
    if not made["shape"] or len({len(made[what]) for what in lists}) != 1:
        raise BadManifest(f"{held['box'].place}: shape, strides and block must be equally long")
    if max(made["shape"]) >= 1 << 31:
        raise BadManifest(f"{held['box'].place}.shape: an extent of more than 31 bits")
    bounds = {"element_bytes": (1, 8), "element_type": (0, 15), "swizzle": (0, 3)}
    return name, made | {what: box[what].integer(*bounds[what]) for what in numbers}
