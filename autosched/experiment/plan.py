"""An experiment with nothing left open: every arm with all its settings. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.experiment.schema import (
    ClockFields,
    Device,
    FinalsFields,
    Kind,
    ModelledFields,
    Prior,
    RankingFields,
)

#: What the landscape of a run over all of them is called.
SUITE = "suite"


@dataclass(frozen=True)
class Arm:
    """One of what is compared; ``search`` and ``model`` hold every setting of either."""

    name: str
    strategy: str
    search: Mapping[str, Any]
    cost_model: str
    model: Mapping[str, Any]
    batch: int
    prior: Prior
    ask_s: float | None = None
    scheduler: str = ""
    turns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def learns(self) -> bool:
        """Whether its model's time grows with what it was told."""
        return bool(self.model)

    @property
    def inherits(self) -> bool:
        """Whether its model starts from what was learnt elsewhere."""
        return bool(self.model.get("transfer", "none") != "none")

    def to_data(self) -> dict[str, Any]:
        """Return what a file says of it."""
        shared = {"scheduler": self.scheduler, "turns": dict(self.turns)}
        return {
            "strategy": self.strategy,
            "search": dict(self.search),
            "cost_model": self.cost_model,
            "model": dict(self.model),
            "batch": self.batch,
            "prior": self.prior,
            **({} if self.ask_s is None else {"ask_s": self.ask_s}),
            **(shared if self.scheduler else {}),
        }


@dataclass(frozen=True)
class Place:
    """Where an arm is tried: a landscape, or a workload whose times a device gives.

    ``name`` names folders. A landscape has a file (empty: the shipped one of that name) and its
    SHA-256; a workload the fields that state it.
    """

    name: str
    file: str = ""
    sha256: str = ""
    spec: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Experiment:
    """Everything that the folder's bytes depend on beside versions. See ``schema`` for fields."""

    name: str
    question: str
    kind: Kind
    device: Device
    target: str | None
    places: tuple[Place, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    trials: int
    budget_s: float | None
    early_stopping: int | None
    checkpoints: tuple[int, ...]
    checkpoints_s: tuple[float, ...]
    within: tuple[float, ...]
    clock: ClockFields
    finals: FinalsFields
    ranking: RankingFields
    modelled: ModelledFields
    metrics: tuple[str, ...]

    def asking_s(self, arm: Arm, told: int) -> float:
        """Return what the clock charges for a batch of an arm that was told so many rows."""
        clock = self.clock
        if arm.ask_s is not None:
            return arm.ask_s
        learns = arm.learns and told > 0
        return clock.ask_s + (clock.learn_s + clock.row_s * told if learns else 0.0)

    @property
    def total(self) -> int:
        """Trials of one run: of a suite those of all landscapes together."""
        return self.trials * (len(self.places) if self.kind == "suite" else 1)

    @property
    def tried_on(self) -> tuple[str, ...]:
        """What runs are on: each landscape, or all as one suite."""
        return (SUITE,) if self.kind == "suite" else tuple(place.name for place in self.places)

    def to_data(self) -> dict[str, Any]:
        """Return the plain data of a file that states the same experiment."""
        held: dict[str, Any] = {
            "name": self.name,
            "question": self.question,
            "kind": self.kind,
            "device": self.device,
        }
        if self.device == "replay":
            held["landscapes"] = [_landscape(place) for place in self.places]
        else:
            held |= {"target": self.target} if self.target else {}
            held["workloads"] = [{"id": p.name, **(p.spec or {})} for p in self.places]
        held["arms"] = {arm.name: arm.to_data() for arm in self.arms}
        for name in ("seeds", "checkpoints", "checkpoints_s", "within", "metrics"):
            held[name] = list(getattr(self, name))
        for name in ("trials", "budget_s", "early_stopping"):
            if getattr(self, name) is not None:
                held[name] = getattr(self, name)
        for name in ("clock", "finals", "ranking", "modelled"):
            held[name] = getattr(self, name).model_dump()
        return held


def _landscape(place: Place) -> dict[str, str]:
    held = {"name": place.name, "sha256": place.sha256}
    return {**held, "file": place.file} if place.file else held
