"""Specs: YAML files and the inline form become tasks. Every problem is a SpecError."""

from autosched.spec.error import SpecError
from autosched.spec.loader import from_data, load
from autosched.spec.schema import json_schema
from autosched.spec.task import Task

__all__ = ["SpecError", "Task", "from_data", "json_schema", "load"]
