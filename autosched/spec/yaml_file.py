"""YAML files as documents. Knows no schema; refuses what data has no need of.

Tags, anchors, merge keys, directives, duplicate keys and several documents in one file are
refused, each with a sentence: a spec is plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean

from autosched.spec.document import Document, Path, Place
from autosched.spec.error import SpecError

#: A spec is written by people; anything larger is another kind of file.
LARGEST_BYTES = 1 << 18
DEEPEST = 16
MOST_DIGITS = 40


def read(name: str) -> Document:
    """Read the file called ``name``; raises SpecError."""
    text = _text(name)
    try:
        _refuse_beyond_data(name, text)
        loader = YAML(typ="rt")
        loaded = loader.load(text)
        reader = _Reader(name)
        data = reader.plain(loaded, ())
    except MarkedYAMLError as error:
        raise SpecError(_yaml_sentence(name, error)) from error
    except YAMLError as error:
        first = str(error).strip().splitlines()[0]
        raise SpecError(f"{name}:1:1: not a spec in YAML: {first}") from error
    except SpecError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The parser lets such through on keys that are mappings and the like.
        raise SpecError(f"{name}:1:1: not a spec in YAML: {str(error)[:120]}") from error
    return Document(name, data, reader.keys, reader.values, tuple(text.split("\n")))


def write(data: Any) -> str:
    """Return plain data as the text of a file that ``read`` reads back as equal data.

    Mappings stand a key a line in their order, lists of plain values on one line.
    """
    stream = StringIO()
    writer = YAML()
    writer.width = 100
    writer.dump(_laid_out(data), stream)
    return stream.getvalue()


def _laid_out(data: Any) -> Any:
    if isinstance(data, Mapping):
        held = CommentedMap({key: _laid_out(value) for key, value in data.items()})
        if not held:
            held.fa.set_flow_style()
        return held
    if isinstance(data, list | tuple):
        row = CommentedSeq(map(_laid_out, data))
        if not any(isinstance(entry, Mapping | list | tuple) for entry in data):
            row.fa.set_flow_style()
        return row
    return data


def _text(name: str) -> str:
    raw = _bytes(name)
    if len(raw) > LARGEST_BYTES:
        raise SpecError(f"{name}: is larger than {LARGEST_BYTES} bytes, which no spec is")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise SpecError(f"{name}:{line}:{column}: is not UTF-8, a spec is") from error
    return text.replace("\r\n", "\n")


def _bytes(name: str) -> bytes:
    path = FilePath(name)
    try:
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(LARGEST_BYTES + 1)
        # lstat raises what stands in the way of a name that leads nowhere.
        path.lstat()
    except FileNotFoundError as error:
        raise SpecError(
            f"{name}: no such file; a workload in words is op:key=value,..., such as "
            "matmul:m=512,n=512,k=512,dtype=float16"
        ) from error
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise SpecError(f"{name[:200]!r}: cannot be read: {fact}") from error
    raise SpecError(f"{name}: is {'a directory' if path.is_dir() else 'no file'}, a spec is a file")


def _refuse_beyond_data(name: str, text: str) -> None:
    depth = 0
    for event in YAML(typ="rt").parse(text):
        fact = _beyond_data(event)
        depth += isinstance(event, events.CollectionStartEvent)
        depth -= isinstance(event, events.CollectionEndEvent)
        if depth > DEEPEST:
            fact = f"is nested more than {DEEPEST} deep"
        if fact:
            mark = event.start_mark
            raise SpecError(f"{name}:{mark.line + 1}:{mark.column + 1}: {fact}")


def _beyond_data(event: Any) -> str | None:
    if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None):
        return "anchors and aliases are not used in specs, write the value out"
    if isinstance(event, events.DocumentStartEvent):
        directive = event.version or event.tags
        return "directives are not used in specs, remove the line" if directive else None
    if isinstance(event, events.ScalarEvent | events.CollectionStartEvent) and event.ctag:
        return f"tags such as {_short(str(event.ctag))} are not used in specs, write plain data"
    if isinstance(event, events.ScalarEvent) and not event.style:
        return _beyond_scalar(event.value)
    return None


def _beyond_scalar(text: str) -> str | None:
    if text == "<<":
        return "merge keys are not used in specs, write the keys out"
    if len(text) > MOST_DIGITS and not text.strip("+-0123456789_"):
        return f"a number has at most {MOST_DIGITS} digits, not {len(text)}"
    return None


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:40]


def _yaml_sentence(name: str, error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
    problem = (error.problem or error.context or "it cannot be parsed").strip().splitlines()[0]
    if "single document" in str(error.context):
        return f"{place}: a second document begins, a spec is one"
    return f"{place}: not a spec in YAML: {problem}"


class _Reader:
    """Turns ruamel's containers into plain ones and notes where everything stands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: dict[Path, Place] = {}
        self.values: dict[Path, Place] = {}

    def plain(self, node: Any, path: Path) -> Any:
        """Return ``node`` as plain data; raises SpecError on a type that specs lack."""
        if isinstance(node, CommentedMap):
            return {key: self._entry(node, key, path) for key in node}
        if isinstance(node, CommentedSeq):
            return [self._item(node, index, path) for index in range(len(node))]
        if isinstance(node, bool | ScalarBoolean):
            return bool(node)
        for kind in (str, int, float):
            if isinstance(node, kind):
                return kind(node)
        if node is None:
            return None
        place = Document(self.name, None, self.keys, self.values).where(path)
        raise SpecError(f"{place}: a {type(node).__name__} is not used in specs, quote a text")

    def _entry(self, node: CommentedMap, key: Any, path: Path) -> Any:
        line, column = node.lc.key(key)
        if not isinstance(key, str):
            written = "a list or a mapping" if isinstance(key, tuple | dict) else str(key)[:40]
            raise SpecError(f"{self.name}:{line + 1}:{column + 1}: a key is a name, not {written}")
        inner = (*path, str(key))
        self.keys[inner] = Place(column + 1, line + 1)
        if node[key] is None:  # nothing is written, so nothing has a place
            self.values[inner] = self.keys[inner]
        else:
            line, column = node.lc.value(key)
            self.values[inner] = Place(column + 1, line + 1)
        return self.plain(node[key], inner)

    def _item(self, node: CommentedSeq, index: int, path: Path) -> Any:
        line, column = node.lc.item(index)
        self.values[(*path, index)] = Place(column + 1, line + 1)
        return self.plain(node[index], (*path, index))
