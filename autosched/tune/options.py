"""What bounds a tuning run. Data only; checked where it is read from a command, a spec or a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

#: No count of an option is near this bound.
LARGEST = 1 << 32
LARGEST_BATCH = 1 << 16


class BadOptions(ValueError):
    """Plain data that are no options; the message names the option, the wish and the fact."""


@dataclass(frozen=True)
class Options:
    """How long a run goes on, and how its best are told apart.

    ``early_stopping`` is the number of trials without a gain above noise that end a run.
    ``finals`` of the fastest are measured again in turns, ``final_rounds`` times. ``horizon`` is
    the number of trials that the search is planned for, whatever bounds it: what is proposed
    depends on it, on ``batch`` and on ``seed``, and on nothing else here.
    """

    trials: int
    batch: int = 32
    budget_s: float | None = None
    early_stopping: int | None = None
    finals: int = 8
    final_rounds: int = 50
    seed: int = 0
    horizon: int = 320

    def to_data(self) -> dict[str, Any]:
        """Return the plain data that a log holds."""
        return asdict(self)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Options:
        """Read what ``to_data`` made; raises BadOptions on a missing, unknown or wrong one."""
        known = [f.name for f in fields(Options)]
        for name in sorted({*known} ^ {*data}):
            state = "is missing" if name in known else "is not known"
            raise BadOptions(f"the option {ascii(name)[:60]} {state}")
        for name in known:
            _check(name, data[name])
        return Options(**data)


def _check(name: str, value: Any) -> None:
    if value is None and name in ("budget_s", "early_stopping"):
        return
    if name == "budget_s":
        good = type(value) in (int, float) and 0 < value < LARGEST
    else:
        least = 0 if name in ("seed", "finals", "final_rounds") else 1
        most = LARGEST_BATCH if name == "batch" else LARGEST
        good = type(value) is int and least <= value <= most
    if not good:
        raise BadOptions(f"the option {name} is a bounded number, not {ascii(value)[:60]}")


#: Presets by the word a user says. ``quick`` takes about ten seconds on a GPU with sixteen cores;
#: its batches are small, so that half of its trials know the outcome of the first ones.
EFFORTS: dict[str, Options] = {
    "quick": Options(trials=64, batch=16, finals=4, final_rounds=20, horizon=64),
    "normal": Options(trials=320, early_stopping=192),
    "full": Options(trials=1000, early_stopping=500, final_rounds=100, horizon=1000),
}
