"""What an experiment file may say, and its JSON Schema.

Knows fields and their types; which strategies, models and settings there are, is for ``loader``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from autosched.spec.explain import WISH
from autosched.spec.schema import OWNERS, Identifier, WorkloadFields

MOST_SEEDS = 10_000
#: Moments of the simulated clock at which tables look, by default.
SECONDS = [2.0, 5.0, 10.0, 20.0, 45.0, 90.0]
Kind = Literal["search", "ranking", "suite"]
Device = Literal["replay", "model", "cuda"]
#: What the folder's tables are of. Of a search: best so far, regret at checkpoints, evaluations
#: and seconds to near the best known, score against calculated random search, failures, the noise
#: of timing twice, and how finals choose. Of a ranking: how well scores order what a model has not
#: seen, how that grows with rows, and which features count.
SearchMetric = Literal["curves", "regret", "reach", "score", "failures", "noise", "finals"]
SuiteMetric = Literal["curves", "regret", "reach"]
RankingMetric = Literal["ranking", "importance"]
#: What an arm knows before it starts: nothing, or what was recorded of the other landscapes.
Prior = Literal["none", "others"]
ArmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=-]{0,79}$")]
Plain = bool | int | float | str | list[Any] | None
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Rounds = Annotated[int, Field(ge=1, le=1000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


def _seeds(given: Any) -> Any:
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST_SEEDS:
        return list(range(given))
    good = isinstance(given, list) and 0 < len(given) <= MOST_SEEDS
    if good and all(type(n) is int and 0 <= n < 1 << 32 for n in given):
        if len(set(given)) == len(given):
            return given
        raise PydanticCustomError(WISH, "a list in which no seed stands twice")
    raise PydanticCustomError(WISH, f"a number of seeds up to {MOST_SEEDS}, or a list of them,")


def _levels(given: Any) -> Any:
    """Take a list of values, or values by the names that their arms are to have."""
    if isinstance(given, list | dict) and given:
        return given
    raise PydanticCustomError(WISH, "a list of values, or a mapping from names to values,")


def _ascending(given: Any) -> Any:
    numbers = isinstance(given, list) and all(type(n) in (int, float) for n in given)
    if numbers and given and given[0] > 0 and all(a < b for a, b in pairwise(given)):
        return given
    raise PydanticCustomError(WISH, "a list of numbers above 0, each above the one before,")


def _rows(given: Any) -> Any:
    numbers = given[:-1] if isinstance(given, list) and given[-1:] == ["all"] else given
    if given != ["all"]:
        _ascending(numbers)
    return given


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LandscapeFields(_Fields):
    """A landscape by name, with what tells it from another of that name."""

    name: Identifier
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    file: str | None = Field(None, description="by default the shipped one of that name")


def _landscape(given: Any) -> Any:
    if isinstance(given, str | dict):
        return given
    raise PydanticCustomError(WISH, "a shipped landscape's name, or a file,")


class ArmFields(_Fields):
    """One of what is compared. What it does not say is as the base says, or the default."""

    strategy: str | None = None
    search: dict[str, Plain] = Field(default_factory=dict, description="settings of the strategy")
    cost_model: str | None = None
    model: dict[str, Plain] = Field(default_factory=dict, description="settings of the cost model")
    batch: Annotated[int, Field(ge=1, le=4096)] | None = None
    prior: Prior | None = None
    ask_s: Seconds | None = Field(None, description="its own time a batch, instead of the clock's")
    scheduler: str | None = Field(None, description="of a suite: who has the next turn")
    turns: dict[str, Plain] = Field(default_factory=dict, description="settings of the scheduler")


class ClockFields(_Fields):
    """The clock of a replayed run: builds side by side on ``builders``, recorded runs in turn, and
    the arm's own time, stated rather than measured so that it repeats: ``ask_s`` a batch, with a
    model that was told of rows ``learn_s`` more, and ``row_s`` for each of them."""

    builders: Annotated[int, Field(ge=1, le=4096)] = 16
    ask_s: Seconds = 0.02
    learn_s: Seconds = 0.5
    row_s: Seconds = 0.001


class FinalsFields(_Fields):
    """Finals that are simulated from recorded repeats: so many of the best, so many rounds."""

    entrants: Annotated[list[Count], BeforeValidator(_ascending)] = [1, 2, 4, 8, 16]
    rounds: Annotated[list[Rounds], BeforeValidator(_ascending)] = [50]
    draws: Annotated[int, Field(ge=1, le=10_000)] = 25


class ModelledFields(_Fields):
    """Made-up landscapes for ``device: model``: so many schedules of the first so many sketches."""

    schedules: Annotated[int, Field(ge=8, le=100_000)] = 400
    sketches: Annotated[int, Field(ge=1, le=1000)] = 6


class RankingFields(_Fields):
    """How models are evaluated offline. ``held_out``: ``workload`` learns from the other landscapes
    alone; ``rows`` learns from so many rows of the same landscape, and from the others too where
    the arm's prior says so. What is scored is never what was learnt."""

    held_out: Literal["workload", "rows"] = "rows"
    rows: Annotated[list[Count | Literal["all"]], BeforeValidator(_rows)] = [16, 64, 256]
    top: Annotated[list[Count], BeforeValidator(_ascending)] = [1, 5, 8]


class ExperimentFields(_Fields):
    """An experiment file."""

    model_config = ConfigDict(title="autosched experiment")
    name: Identifier
    question: Annotated[str, Field(min_length=1, max_length=400)] = Field(
        description="what it is to answer, in one sentence"
    )
    kind: Kind = "search"
    landscapes: list[Annotated[str | LandscapeFields, BeforeValidator(_landscape)]] = Field(
        default_factory=list, description="shipped names, files, or the word 'shipped' for all"
    )
    workloads: list[WorkloadFields] = Field(default_factory=list)
    device: Device = Field("replay", description="what gives outcomes; replay: the landscapes")
    target: str | None = Field(None, description="hardware data; by default the GPU's own")
    base: ArmFields = Field(default_factory=ArmFields)
    arms: dict[ArmName, ArmFields] = Field(default_factory=dict)
    vary: dict[str, Annotated[Any, BeforeValidator(_levels)]] = Field(
        default_factory=dict, description="model.objective: [..]: one at a time, from the base"
    )
    seeds: Annotated[list[int], BeforeValidator(_seeds)] = Field(
        default_factory=lambda: list(range(10)),
        description="so many, or these",
        json_schema_extra={
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST_SEEDS},
                {"type": "array", "items": {"type": "integer", "minimum": 0}},
            ]
        },
    )
    trials: Count = Field(320, description="of each run; of a suite for each landscape, shared")
    budget_s: Positive | None = Field(None, description="of the run's clock, finals apart")
    early_stopping: Count | None = Field(None, description="trials without a gain above noise")
    checkpoints: Annotated[list[Count], BeforeValidator(_ascending)] = [16, 32, 64, 128, 256, 512]
    checkpoints_s: Annotated[list[Positive], BeforeValidator(_ascending)] = SECONDS
    within: Annotated[list[Positive], BeforeValidator(_ascending)] = [0.02, 0.05]
    clock: ClockFields = Field(default_factory=ClockFields)
    finals: FinalsFields = Field(default_factory=FinalsFields)
    ranking: RankingFields = Field(default_factory=RankingFields)
    modelled: ModelledFields = Field(default_factory=ModelledFields)
    metrics: list[SearchMetric | RankingMetric] = Field(
        default_factory=list, description="by default all of the kind"
    )


#: The fields that a step of an error's path leads to.
FIELDS_OF: dict[str | int, type[BaseModel]] = {
    **{key: owner for key, owner in OWNERS.items() if str(key).startswith("<")},
    "landscapes": LandscapeFields,
    "base": ArmFields,
    "arms": ArmFields,
    "clock": ClockFields,
    "finals": FinalsFields,
    "ranking": RankingFields,
    "modelled": ModelledFields,
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of experiment files, for editors."""
    schema = ExperimentFields.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
