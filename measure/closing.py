"""What is closed at the end of a ``with`` block. Knows nothing of what that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """A context manager that yields itself and closes itself at the end."""

    @abstractmethod
    def close(self) -> None:
        """End it. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
