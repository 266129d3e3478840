"""What came of a search's proposals so far, for strategies that learn from it. Scores nothing."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tune.gain import Gain
from autosched.tune.strategy import Told


class History:
    """Outcomes in the order of proposals."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._gain = Gain()

    def __len__(self) -> int:
        """How many outcomes were told."""
        return len(self.told)

    @property
    def since_gain(self) -> int:
        """How many outcomes came after the last gain above noise."""
        return self._gain.since

    def enter(self, told: Sequence[Told]) -> None:
        """Take in what came next."""
        self.told += told
        for one in told:
            self._gain.enter(one.measurement)

    def best(self, count: int, last: int | None = None) -> list[Told]:
        """Return the ``count`` fastest, fastest first; of the ``last`` outcomes where given."""
        among = self.told if last is None else self.told[-last:]
        timed = [t for t in among if t.latency_us is not None]
        return sorted(timed, key=lambda t: (t.latency_us, t.candidate.key))[:count]
