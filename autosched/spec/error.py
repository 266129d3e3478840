"""The one error of specs: a sentence that begins with its place."""

from __future__ import annotations


class SpecError(ValueError):
    """A spec that cannot be used: "file:line:column: path: fact, wish"."""
