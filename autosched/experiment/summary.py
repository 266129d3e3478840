"""An experiment's summary as plain data: what its question is answered by. From tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autosched.experiment.plan import Experiment
from autosched.experiment.tables import ALL, SPREAD, Table

Data = dict[str, Any]


def summary(experiment: Experiment, tables: Sequence[Table], *, predicted: bool) -> Data:
    """Return by arm what it came to over all landscapes, at the last checkpoint of evaluations, or
    ranked with the most rows.

    ``predicted`` says that times of some landscape are made up.
    """
    held = {table.name: table for table in tables}
    tried_on = experiment.tried_on
    whole = tried_on[0] if len(tried_on) == 1 else ALL
    return {
        "name": experiment.name,
        "question": experiment.question,
        "kind": experiment.kind,
        "predicted": predicted,
        "landscapes": [place.name for place in experiment.places],
        "seeds": len(experiment.seeds),
        **({} if experiment.kind == "ranking" else {"trials": experiment.total}),
        "arms": {arm.name: _of(arm.name, whole, held, experiment) for arm in experiment.arms},
    }


def _of(arm: str, whole: str, held: Mapping[str, Table], experiment: Experiment) -> Data:
    found: Data = {}
    last = experiment.checkpoints[-1]
    for name, at in (("regret", last), ("score", "mean")):
        for row in _rows(held, name, arm, whole):
            if row["axis"] == "evaluations" and row["at"] == at:
                found[name] = {key: finite(row[key]) for key in SPREAD}
                if "ratio" in row:
                    found["ratio"] = [row[k] for k in ("ratio", "ratio_low", "ratio_high")]
    for row in _rows(held, "reach", arm, whole):
        within = found.setdefault("reach", {}).setdefault(f"{row['within']:g}", {})
        kept = [key for key in row if key not in ("landscape", "arm", "within")]
        within |= {key: finite(row[key]) for key in kept}
    most = experiment.ranking.rows[-1]
    for row in _rows(held, "ranking", arm, whole):
        if row["rows"] == most:
            ranks = found.setdefault("ranking", {"rows": most})
            ranks[row["metric"]] = {key: finite(row[key]) for key in SPREAD}
    rows = [row for row in _rows(held, "failures", arm) if row["kind"] == "all"]
    if rows:
        found["failed"] = sum(r["failed"] for r in rows) / max(1, sum(r["trials"] for r in rows))
    return found


def _rows(
    held: Mapping[str, Table], name: str, arm: str, place: str | None = None
) -> list[Mapping[str, Any]]:
    rows = held[name].rows if name in held else ()
    return [r for r in rows if r["arm"] == arm and place in (None, r["landscape"])]


def finite(value: Any) -> Any:
    """Return a number that JSON has, None for one that is not finite."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
