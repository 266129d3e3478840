"""How a cost model learns, as plain values that are checked where they are read. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

from cost_model.feature_list import GROUPS

#: What trees are fitted to.
#: log_efficiency         log(t_roof / t), squared error
#: throughput             t_best / t within a workload, squared error
#: pairwise               order of pairs within a workload (LambdaMART), gradients normalized
#: pairwise_unnormalized  the same, gradients as they come
#: ndcg                   order with weight on the top, on grades of throughput
#: best_tenth             a forest that tells the best tenth of a workload from the rest
Objective = Literal[
    "log_efficiency", "throughput", "pairwise", "pairwise_unnormalized", "ndcg", "best_tenth"
]
#: What a row counts for: the same; 1/sqrt(rows of its workload); its throughput over the best.
Weights = Literal["none", "workload", "throughput"]
#: How a model is brought up to date: trained anew, trees appended, or never after its first time.
Update = Literal["scratch", "appended", "frozen"]
#: What becomes of earlier measurements of other workloads: nothing; their rows join the told
#: ones; trees start from what a model of them predicts, less so with every told row; the same, as
#: long as it predicts the told rows better than none would.
Transfer = Literal["none", "pooled", "margin", "gated"]

RANKING: tuple[Objective, ...] = ("pairwise", "pairwise_unnormalized", "ndcg")


class BadSettings(ValueError):
    """Settings that are none: ``name`` is the setting, ``wish`` what it may be, ``fact`` what it
    is."""

    def __init__(self, name: str, wish: str, fact: str) -> None:
        super().__init__(f"the setting {name} is {wish}, not {fact}")
        self.name, self.wish, self.fact = name, wish, fact


class BadPrior(ValueError):
    """A file that holds no sound prior, or rows that make none."""


@dataclass(frozen=True)
class NoSettings:
    """The settings of what has none."""


@dataclass(frozen=True)
class ModelSettings:
    """How the learning model learns. Raises BadSettings.

    ``residual`` starts from the analytic model. ``bags`` models of ``rounds`` trees (of a depth
    and rate ``eta``) vote; a score is their mean and ``optimism`` standard deviations more.
    ``dropped`` are groups of features that trees do not see. It is trained again with every
    batch below ``retrain_below`` rows, then once rows have grown by ``retrain_growth``.
    """

    objective: Objective = "log_efficiency"
    residual: bool = True
    weights: Weights = "workload"
    bags: int = 3
    rounds: int = 150
    depth: int = 6
    eta: float = 0.1
    optimism: float = 1.0
    dropped: tuple[str, ...] = ("compiled",)
    update: Update = "scratch"
    retrain_below: int = 2000
    retrain_growth: float = 0.2
    transfer: Transfer = "none"

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))
        if self.objective in RANKING and self.weights == "throughput":
            wish = "none or workload where pairs are ordered"
            raise BadSettings("weights", wish, self.weights)

    def to_data(self) -> dict[str, Any]:
        """Return plain data that ``read`` takes."""
        return {**asdict(self), "dropped": list(self.dropped)}


#: The least and the most of each number.
BOUNDS: dict[str, tuple[float, float]] = {
    "bags": (1, 64),
    "rounds": (1, 10_000),
    "depth": (1, 16),
    "eta": (1e-4, 1.0),
    "optimism": (-10.0, 10.0),
    "retrain_below": (1, 1 << 32),
    "retrain_growth": (0.0, 100.0),
}


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")


def read(kind: type[Settings], data: Mapping[str, Any]) -> Settings:
    """Return settings of ``kind`` from plain data, lists as tuples; what is missing has its
    default. Raises BadSettings on a name that is none of them, and on what ``kind`` refuses."""
    known = [field.name for field in fields(kind)]
    for name in data:
        if name not in known:
            wish = f"one of {', '.join(known)}" if known else "not known: there are none"
            raise BadSettings(ascii(name)[1:61].rstrip("'"), wish, "a name of its own")
    held = {n: tuple(v) if isinstance(v, list) else v for n, v in data.items()}
    return kind(**held)


def _check(name: str, value: Any) -> None:
    hint = get_type_hints(ModelSettings)[name]
    wish = _wish(name, hint, value)
    if wish:
        raise BadSettings(name, wish, ascii(value)[:60])


def _wish(name: str, hint: Any, value: Any) -> str | None:
    """Return what ``value`` should have been, or None where it is right."""
    if name == "dropped":
        known = isinstance(value, tuple) and all(v in GROUPS for v in value)
        good = known and len(set(value)) == len(value) and set(value) != set(GROUPS)
        return None if good else f"a list of some of {', '.join(GROUPS)}, not of all"
    if hint is bool:
        return None if type(value) is bool else "true or false"
    if words := get_args(hint):
        return None if isinstance(value, str) and value in words else f"one of {', '.join(words)}"
    low, high = BOUNDS[name]
    kinds = (int,) if hint is int else (int, float)
    good = type(value) in kinds and low <= value <= high
    what = "a whole number" if hint is int else "a number"
    return None if good else f"{what} from {low:g} to {high:g}"
