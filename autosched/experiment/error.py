"""What a folder of an experiment, or a report of one, can be refused for."""

from __future__ import annotations

from pathlib import Path


class BadFolder(ValueError):
    """A folder that holds no experiment, or another one; the message names it and the fact."""

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(f"{path}: {fact}")


class MissingPackage(RuntimeError):
    """A package that reports are made with is not there; the message says how to get it."""
