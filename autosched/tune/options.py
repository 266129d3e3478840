"""What bounds a tuning run. Data only; checked where it is read from a command or a spec."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """How long a run goes on, and how its best are told apart.

    ``early_stopping`` is the number of trials without a gain above noise that end a run.
    ``finals`` of the fastest are measured again in turns, ``final_rounds`` times.
    """

    trials: int
    batch: int = 32
    budget_s: float | None = None
    early_stopping: int | None = None
    finals: int = 8
    final_rounds: int = 50
    seed: int = 0

    def to_data(self) -> dict[str, Any]:
        """Return the plain data that a log holds."""
        return asdict(self)


#: Presets by the word a user says. ``quick`` takes about ten seconds on a GPU with sixteen cores;
#: its batches are small, so that half of its trials know the outcome of the first ones.
EFFORTS: dict[str, Options] = {
    "quick": Options(trials=64, batch=16, finals=4, final_rounds=20),
    "normal": Options(trials=320, early_stopping=192),
    "full": Options(trials=1000, early_stopping=500, final_rounds=100),
}
