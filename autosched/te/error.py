"""The one error of tensor expressions. Knows nothing of files: a spec adds the place."""

from __future__ import annotations


class IllegalExpression(ValueError):
    """A computation that cannot be; one sentence names the thing, the wish and the fact.

    ``path`` says which argument is meant (such as ``("inputs", "A", "shape")``), and ``offset``
    which character of it, counted from 0, where it is a text.
    """

    def __init__(
        self, fact: str, path: tuple[str | int, ...] = (), offset: int | None = None
    ) -> None:
        super().__init__(fact)
        self.fact = fact
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        place = ".".join(map(str, self.path))
        if self.offset is not None:
            place += f" at character {self.offset + 1}"
        return f"{place}: {self.fact}" if place else self.fact
