"""Specs: YAML files and the inline form become tasks. Every problem is a SpecError."""

from autosched.spec.error import SpecError
from autosched.spec.loader import load
from autosched.spec.schema import json_schema
from autosched.spec.task import Task

__all__ = ["SpecError", "Task", "json_schema", "load"]
