"""From a YAML file to an experiment; every mistake is a SpecError with its place.

Strategies, models and settings are looked up by name in the tables that hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path as FilePath
from typing import Any, get_args

from pydantic import ValidationError

from autosched.experiment.place import NoLandscape, landscapes_named, landscapes_of
from autosched.experiment.plan import Arm, Experiment, Place
from autosched.experiment.schema import (
    FIELDS_OF,
    ArmFields,
    ExperimentFields,
    RankingMetric,
    SearchMetric,
    SuiteMetric,
)
from autosched.spec import SpecError, from_data, yaml_file
from autosched.spec.document import Document, Path
from autosched.spec.explain import explain, show, unknown
from autosched.tune import scheduler, strategies
from cost_model import models
from cost_model.settings import BadSettings
from cost_model.settings import read as read_settings
from search_space import target as targets

#: What an arm is where neither it nor the base says otherwise.
DEFAULT = ArmFields(
    strategy="evolution", cost_model="xgboost", batch=32, prior="none", scheduler="gradient"
)
METRICS: Mapping[str, tuple[str, ...]] = {
    "search": get_args(SearchMetric),
    "ranking": get_args(RankingMetric),
    "suite": get_args(SuiteMetric),
    "live": get_args(SuiteMetric),
}
#: Stands for the strategy of an arm that ranks, and for the model of one that learns nothing.
NONE = "none"
#: What one factor may be, beside a setting of one of the parts.
PARTS = ("search", "model", "turns")
FACTORS = ("strategy", "cost_model", "batch", "prior", "scheduler")


@dataclass(frozen=True)
class Overrides:
    """What a command says instead of the file. None is as the file says.

    ``small`` is for a quick look at whether all of it works: two seeds, two landscapes, few trials
    and small models.
    """

    landscapes: tuple[str, ...] = ()
    trials: int | None = None
    seeds: int | None = None
    only: tuple[str, ...] = ()
    small: bool = False


#: The most of each that is left of a small experiment.
SMALL_TRIALS, SMALL_COUNT, SMALL_SCHEDULES, SMALL_DRAWS, SMALL_ROWS = 24, 2, 120, 5, 48
SMALL_BATCH = 8
SMALL_SETTINGS: Mapping[str, int] = {
    "bags": 1,
    "rounds": 8,
    "population": 64,
    "generations": 1,
    "chains": 8,
    "steps": 20,
    "trees": 8,
}


def load(name: str, overrides: Overrides | None = None) -> Experiment:
    """Read the experiment of a file. Raises SpecError."""
    return resolve(yaml_file.read(name), overrides or Overrides())


def resolve(document: Document, overrides: Overrides | None = None) -> Experiment:
    """Return the experiment that ``document`` states. Raises SpecError."""
    wished = overrides or Overrides()
    fields = _validated(document)
    fields = _small(fields) if wished.small else fields
    trials = wished.trials or fields.trials
    reader = _Reader(document, fields, trials)
    arms = reader.arms()
    known = [arm.name for arm in arms]
    for name in wished.only:
        if name not in known:
            raise SpecError(f"--only {name!r}: no arm of that name: {unknown(name, known)}")
    places = landscapes_named(wished.landscapes) if wished.landscapes else reader.places()
    places = places[:SMALL_COUNT] if wished.small else places
    reader.check(arms, places)
    total = trials * (len(places) if fields.kind == "suite" else 1)
    kept = [arm for arm in arms if not wished.only or arm.name in wished.only]
    return Experiment(
        name=fields.name,
        question=fields.question,
        kind=fields.kind,
        device="replay" if wished.landscapes else fields.device,
        target=reader.target(),
        places=places,
        arms=tuple(map(_small_arm, kept) if wished.small else kept),
        seeds=tuple(fields.seeds if wished.seeds is None else range(wished.seeds)),
        trials=trials,
        budget_s=fields.budget_s,
        early_stopping=fields.early_stopping,
        checkpoints=(*(n for n in fields.checkpoints if n < total), total),
        checkpoints_s=tuple(fields.checkpoints_s),
        within=tuple(fields.within),
        clock=fields.clock,
        finals=fields.finals,
        ranking=fields.ranking,
        modelled=fields.modelled,
        metrics=reader.metrics(),
    )


def _validated(document: Document) -> ExperimentFields:
    if not isinstance(document.data, dict):
        fact = "is empty" if document.data is None else "is no mapping"
        raise SpecError(
            f"{document.name}:1:1: {fact}, an experiment says 'name:', 'question:', ..."
        )
    try:
        return ExperimentFields.model_validate(document.data)
    except ValidationError as errors:
        raise explain(document, errors, ExperimentFields, FIELDS_OF) from errors


def _small(fields: ExperimentFields) -> ExperimentFields:
    schedules = min(fields.modelled.schedules, SMALL_SCHEDULES)
    rows = [n for n in fields.ranking.rows if n != "all" and n <= SMALL_ROWS] or [SMALL_ROWS]
    return fields.model_copy(
        update={
            "seeds": fields.seeds[:SMALL_COUNT],
            "trials": min(fields.trials, SMALL_TRIALS),
            "finals": fields.finals.model_copy(update={"draws": SMALL_DRAWS}),
            "modelled": fields.modelled.model_copy(update={"schedules": schedules}),
            "ranking": fields.ranking.model_copy(update={"rows": rows}),
        }
    )


def _small_arm(arm: Arm) -> Arm:
    search, model = (
        {n: min(v, SMALL_SETTINGS[n]) if n in SMALL_SETTINGS else v for n, v in held.items()}
        for held in (arm.search, arm.model)
    )
    return replace(arm, batch=min(arm.batch, SMALL_BATCH), search=search, model=model)


class _Reader:
    """Looks up what a validated file names."""

    def __init__(self, document: Document, fields: ExperimentFields, trials: int) -> None:
        self._document = document
        self._fields = fields
        self._trials = trials

    def target(self) -> str | None:
        """Return the name of the hardware data for a GPU, None for its own."""
        name = self._fields.target
        if name is not None and self._fields.device != "cuda":
            raise self._error(("target",), "is for device cuda; others come with theirs")
        if name is not None and name not in targets.names():
            raise self._error(("target",), f"{show(name)} is {unknown(name, targets.names())}")
        return name

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that were wished for, all of the kind by default."""
        live = self._fields.device == "cuda"
        known = METRICS["live" if live else self._fields.kind]
        for n, metric in enumerate(self._fields.metrics):
            if metric not in known:
                kind = "run on a GPU" if live else self._fields.kind
                fact = f"{show(metric)} is none of a {kind}: {', '.join(known)}"
                raise self._error(("metrics", n), fact)
        return tuple(self._fields.metrics) or known

    def places(self) -> tuple[Place, ...]:
        """Return the landscapes, or the workloads."""
        fields = self._fields
        replayed = fields.device == "replay"
        wanted, other = ("landscapes", "workloads")[:: 1 if replayed else -1]
        if getattr(fields, other):
            raise self._error((other,), f"device {fields.device} wants {wanted}, not {other}")
        if not getattr(fields, wanted):
            raise self._error((wanted,), f"is missing, device {fields.device} wants some")
        if fields.kind != "search" and fields.device == "cuda":
            fact = f"a {fields.kind} is of recorded or made-up outcomes, not cuda"
            raise self._error(("device",), fact)
        found = list(self._landscapes() if replayed else self._workloads())
        names = [place.name for place, _ in found]
        for n, (place, path) in enumerate(found):
            if place.name in names[:n]:
                raise self._error(path, f"{place.name!r} stands twice")
        return tuple(place for place, _ in found)

    def _workloads(self) -> Iterator[tuple[Place, Path]]:
        for n, fields in enumerate(self._fields.workloads):
            path = ("workloads", n)
            if fields.id is None:
                raise self._error(
                    (*path, "id"), "is missing, each workload of an experiment has one"
                )
            spec = fields.model_dump(exclude_unset=True, exclude={"id", "source", "tags"})
            from_data(self._document.where(path), spec)
            yield Place(fields.id, spec=spec), path

    def _landscapes(self) -> Iterator[tuple[Place, Path]]:
        beside = FilePath(self._document.name).parent
        for n, wish in enumerate(self._fields.landscapes):
            path: Path = ("landscapes", n)
            try:
                yield from ((place, path) for place in landscapes_of(wish, beside))
            except NoLandscape as error:
                raise self._error(path, str(error)) from error

    def check(self, arms: Sequence[Arm], places: Sequence[Place]) -> None:
        """Raise SpecError where arms or the ranking ask for what the places do not give."""
        ranking = self._fields.ranking
        ranks = self._fields.kind == "ranking"
        if ranks and ranking.held_out == "rows" and "all" in ranking.rows:
            fact = "'all' leaves nothing to judge, unless held_out is workload"
            raise self._error(("ranking", "rows"), fact)
        if ranks and ranking.held_out == "workload" and len(places) < 2:
            raise self._error(("ranking", "held_out"), "workload wants two landscapes at least")
        for arm in arms:
            path = self._written(("arms", arm.name, "prior"))
            if arm.prior == "others" and self._fields.device == "cuda":
                raise self._error(path, f"{arm.name}: on a GPU nothing is known of others before")
            if arm.prior == "others" and len(places) < 2:
                fact = "the arm wants what was recorded of others, and there is one landscape"
                raise self._error(path, f"{arm.name}: {fact}")
            if arm.inherits and arm.prior == "none":
                fact = f"its model.transfer is {arm.model['transfer']}, which wants prior: others"
                raise self._error(path, f"{arm.name}: {fact}")

    def arms(self) -> tuple[Arm, ...]:
        """Return the arms: those that are named, then those that vary one factor of the base."""
        fields = self._fields
        base = _merged(DEFAULT, fields.base)
        found = {
            name: self._arm(name, _merged(base, arm), ("arms", name))
            for name, arm in fields.arms.items()
        }
        if not found:
            found["base"] = self._arm("base", base, ("base",))
        for factor, levels in fields.vary.items():
            for name, value, path in _levels(factor, levels):
                arm = self._arm(name, self._varied(base, factor, value, path), path)
                if name in found:
                    raise self._error(path, f"an arm is called {name!r} already")
                if _same(arm) not in map(_same, found.values()):
                    found[name] = arm
        return tuple(found.values())

    def _varied(self, base: ArmFields, factor: str, value: Any, path: Path) -> ArmFields:
        part, _, setting = factor.partition(".")
        if part in PARTS and setting:
            given: Any = {part: {setting: value}}
            return _merged(base, ArmFields(**given))
        if factor in FACTORS:
            try:
                return _merged(base, ArmFields(**{factor: value}))
            except ValidationError as errors:
                detail = errors.errors()[0]["msg"]
                raise self._error(path, f"{show(value)}: {detail.lower()}") from errors
        known = (*FACTORS, *(f"{name}.NAME" for name in PARTS))
        raise self._error(("vary", factor), unknown(factor, known), key=True)

    def _arm(self, name: str, fields: ArmFields, path: Path) -> Arm:
        strategy, search = NONE, dict[str, Any]()
        if self._fields.kind != "ranking":
            strategy = str(fields.strategy)
            search = self._search(fields, strategy, path)
        model, settings = NONE, dict[str, Any]()
        if strategy == NONE or strategies.learns(strategy):
            model = str(fields.cost_model)
            settings = self._model(fields, model, path)
        return Arm(
            name=name,
            strategy=strategy,
            search=search,
            cost_model=model,
            model=settings,
            batch=fields.batch or 32,
            prior=fields.prior or "none",
            ask_s=fields.ask_s,
            **(self._turns(fields, path) if self._fields.kind == "suite" else {}),
        )

    def _turns(self, fields: ArmFields, path: Path) -> dict[str, Any]:
        name = str(fields.scheduler)
        if name not in scheduler.NAMES:
            raise self._unknown(path, "scheduler", name, scheduler.NAMES)
        try:
            held = scheduler.make(name, (), fields.turns).settings
        except scheduler.BadScheduler as error:
            raise self._error(self._written((*path, "turns")), str(error)) from error
        return {"scheduler": name, "turns": dict(held)}

    def _search(self, fields: ArmFields, strategy: str, path: Path) -> dict[str, Any]:
        known = strategies.names()
        if strategy not in known:
            raise self._unknown(path, "strategy", strategy, known)
        kind = strategies.settings_of(strategy)
        given = dict(fields.search)
        if "horizon" in kind.__dataclass_fields__:
            given.setdefault("horizon", self._trials)
        try:
            return _plain(asdict(read_settings(kind, given)))
        except BadSettings as error:
            raise self._setting((*path, "search"), error) from error

    def _model(self, fields: ArmFields, model: str, path: Path) -> dict[str, Any]:
        if model not in models.NAMES:
            raise self._unknown(path, "cost_model", model, models.NAMES)
        kind: Any = models.settings_of(model)
        try:
            return _plain(asdict(read_settings(kind, fields.model)))
        except BadSettings as error:
            raise self._setting((*path, "model"), error) from error

    def _unknown(self, path: Path, what: str, given: str, known: tuple[str, ...]) -> SpecError:
        return self._error(
            self._written((*path, what)), f"{show(given)} is {unknown(given, known)}"
        )

    def _setting(self, path: Path, error: BadSettings) -> SpecError:
        """Return the error of a setting, which names it where no key does."""
        fact = f"{error.name} is {error.wish}, not {error.fact}"
        return self._error(self._written((*path, error.name)), fact)

    def _written(self, path: Path) -> Path:
        """Return where what an arm is refused for is written: in the arm, or in the base."""
        if path[0] == "vary":
            return path[:3]
        in_base = ("base", *path[2:])
        if path[0] == "arms" and path not in self._document.keys and in_base in self._document.keys:
            return in_base
        return path

    def _error(self, path: Path, fact: str, *, key: bool = False) -> SpecError:
        return self._document.error(path, fact, key=key)


def _merged(base: ArmFields, arm: ArmFields) -> ArmFields:
    """Return ``arm`` with what it leaves open taken from ``base``.

    Settings are taken over only where they are of the same strategy or model.
    """
    same_search = arm.strategy in (None, base.strategy)
    same_turns = arm.scheduler in (None, base.scheduler)
    same_model = arm.cost_model in (None, base.cost_model)
    return ArmFields(
        strategy=arm.strategy or base.strategy,
        search={**(base.search if same_search else {}), **arm.search},
        cost_model=arm.cost_model or base.cost_model,
        model={**(base.model if same_model else {}), **arm.model},
        batch=arm.batch or base.batch,
        prior=arm.prior or base.prior,
        ask_s=base.ask_s if arm.ask_s is None else arm.ask_s,
        scheduler=arm.scheduler or base.scheduler,
        turns={**(base.turns if same_turns else {}), **arm.turns},
    )


def _levels(factor: str, levels: Any) -> Iterator[tuple[str, Any, Path]]:
    """Yield the name of each arm of a factor, its value and where it is written."""
    if isinstance(levels, dict):
        yield from ((str(name), value, ("vary", factor, name)) for name, value in levels.items())
        return
    short = factor.rpartition(".")[2]
    for n, value in enumerate(levels):
        yield f"{short}={_word(value)}", value, ("vary", factor, n)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "+".join(map(_word, value)) or "none"
    return "none" if value is None else str(value)


def _same(arm: Arm) -> tuple[Any, ...]:
    held = arm.to_data()
    return tuple(sorted((name, repr(value)) for name, value in held.items()))


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {n: list(v) if isinstance(v, tuple) else v for n, v in settings.items()}
