from __future__ import annotations

from collections.abc import Callable, Sequence

from measure.gpu_timer import fastest


class Clock:
    """Times a piece by what it returns; every second batch was late."""

    def __init__(self) -> None:
        self._batches = 0

    def batch_us(self, pieces: Sequence[Callable[[], object]]) -> list[float | None]:
        self._batches += 1
        late = self._batches % 2 == 0
        return [None if late else float(str(piece())) for piece in pieces]


def test_the_fastest_is_the_one_with_the_least_median() -> None:
    assert fastest(Clock(), [lambda: 3.0, lambda: 1.0, lambda: 2.0]) == 1
    assert fastest(Clock(), [lambda: 3.0]) == 0
