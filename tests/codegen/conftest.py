"""Fixtures that make schedules: helper modules are not importable in importlib mode."""

import importlib.util
from pathlib import Path

import pytest

from search_space.target import load


def _load_module():
    path = Path(__file__).parent / "schedules_for_tests.py"
    spec = importlib.util.spec_from_file_location("schedules_for_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def schedules():
    """The module of test schedules."""
    return _load_module()


@pytest.fixture(scope="session")
def h200():
    return load("h200")
