"""From an argument to tasks: a YAML file or the inline form. Knows no devices, no tuning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from autosched.spec import inline, yaml_file
from autosched.spec.document import Document, Path
from autosched.spec.error import SpecError
from autosched.spec.explain import explain
from autosched.spec.schema import LABELS, ExpressionFields, OperatorFields, SpecFields
from autosched.spec.task import Task
from autosched.te.error import IllegalExpression

_SUFFIXES = (".yaml", ".yml")


def load(argument: str) -> tuple[Task, ...]:
    """Return the tasks that a YAML file, or ``op:key=value,...``, states; raises SpecError."""
    return tasks(_document(argument))


def from_data(name: str, fields: Mapping[str, Any]) -> Task:
    """Return the task that ``fields`` state, the plain data of ``Task.spec``; raises SpecError.

    ``name`` says in errors where they come from.
    """
    (task,) = tasks(Document(name, {"workload": dict(fields)}, inline=True))
    return task


def tasks(document: Document) -> tuple[Task, ...]:
    """Return the tasks that ``document`` states; raises SpecError."""
    spec = _validated(document)
    options = spec.tune.model_dump(exclude_none=True)
    if spec.workload is not None:
        return (_task(document, ("workload",), spec.workload, options),)
    rows = spec.suite.workloads if spec.suite else []
    found: dict[str, Task] = {}
    for number, row in enumerate(rows):
        path: Path = ("suite", "workloads", number)
        if row.id is None:
            raise document.error((*path, "id"), "is missing, each row of a suite has one")
        if row.id in found:
            raise document.error((*path, "id"), f"{row.id!r} stands twice in the suite")
        found[row.id] = _task(document, path, row, options)
    return tuple(found.values())


def _document(argument: str) -> Document:
    if not argument:
        raise SpecError("a spec is a YAML file or op:key=value,..., not an empty text")
    if argument.lower().endswith(_SUFFIXES) or not inline.is_inline(argument):
        return yaml_file.read(argument)
    return yaml_file.read(argument) if _exists(argument) else inline.read(argument)


def _exists(argument: str) -> bool:
    try:
        return FilePath(argument).exists()
    except (OSError, ValueError):
        return False


def _validated(document: Document) -> SpecFields:
    if document.data is None:
        raise SpecError(f"{document.name}:1:1: is empty, a spec says 'workload:' or 'suite:'")
    if not isinstance(document.data, dict):
        raise SpecError(f"{document.name}:1:1: a spec is a mapping with 'workload:' or 'suite:'")
    try:
        spec = SpecFields.model_validate(document.data)
    except ValidationError as errors:
        raise explain(document, errors) from errors
    if (spec.workload is None) == (spec.suite is None):
        said = "neither" if spec.workload is None else "both"
        raise SpecError(f"{document.name}:1:1: says {said} of 'workload:' and 'suite:', want one")
    return spec


def _task(
    document: Document,
    path: Path,
    fields: OperatorFields | ExpressionFields,
    options: dict[str, Any],
) -> Task:
    try:
        workload = fields.workload()
    except IllegalExpression as error:
        raise document.error((*path, *error.path), error.fact, offset=error.offset) from error
    given = fields.model_dump(exclude_unset=True, exclude=set(LABELS))
    name = fields.id or _default_id(document)
    where, tags = document.where(path), tuple(fields.tags)
    return Task(name, workload, where, fields.source, tags, given, options, fields.weight)


def _default_id(document: Document) -> str:
    if document.inline:
        return document.lines[0] if document.lines else document.name
    return FilePath(document.name).stem
