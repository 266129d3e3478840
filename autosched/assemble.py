"""Picks the concrete classes of a run by their names. The only module that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.landscape.landscape import Landscape
from autosched.machine import Machine, choose_target, landscape_for, landscape_of, unknown
from autosched.spec.task import Task
from autosched.tune import strategies
from autosched.tune.candidate import Key, key_of
from autosched.tune.events import Event, LibraryTimed
from autosched.tune.grid import Grid
from autosched.tune.identity import ResumeRefused, differences, identity
from autosched.tune.nearest import nearest
from autosched.tune.options import BadOptions, Options
from autosched.tune.predicted import PredictedTimes
from autosched.tune.recorded import RecordedRun, plain
from autosched.tune.recorded_grid import RecordedGrid
from autosched.tune.recorded_outcomes import RecordedOutcomes, device_info, library_timing
from autosched.tune.replay import Verdict, replay
from autosched.tune.result import TuningResult
from autosched.tune.running import Running
from autosched.tune.strategy import OutcomesBySchedule, Strategy
from autosched.tune.suite import Member, stake_of
from autosched.tune.tuner import prepare, refuse_changed, run_name, tune
from cost_model import models
from cost_model.dataset import Observation
from cost_model.model import CostModel
from cost_model.settings import BadPrior, BadSettings
from measure.crew import Crew
from measure.disk import StorageError
from measure.log import LogWriter
from measure.measurement import Timing
from measure.replay_device import ReplayDevice
from measure.service import BUILD_TIMEOUT_S, Service, open_service
from search_space.rules import NoSketch, sketches
from search_space.target import Target
from search_space.workload import Workload

STRATEGIES = strategies.names()
COST_MODELS = models.NAMES
#: The cost model that may start from a prior, and the words for which.
LEARNER = "xgboost"
NO_PRIOR, SHIPPED = "none", "shipped"
if TYPE_CHECKING:
    from cost_model.prior import Prior

#: The setting of strategies that options give where it is not given itself.
HORIZON = "horizon"
#: Interleaved rounds that give the library's time before a search; the final has its own.
LIBRARY_ROUNDS = 10


@dataclass(frozen=True)
class Wishes:
    """How to search. ``timeout_s`` bounds each run of a candidate, or each build where nothing
    runs; None is 10 on a GPU, or 60 without one, where builds take their turns on few cores.

    ``settings`` are those of the strategy and ``model_settings`` those of the cost model, as plain
    data; what is missing has its default.
    ``nearest`` are schedules that did well for the nearest workloads of earlier runs. ``prior`` is
    what a cost model that learns starts from: "none", "shipped", or a file; None is the shipped
    one where times are measured or were.
    """

    options: Options
    strategy: str = "evolution"
    cost_model: str = "xgboost"
    timeout_s: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    nearest: tuple[Key, ...] = ()
    prior: str | None = None


def wishes_of(run: RecordedRun) -> Wishes:
    """Return how ``run`` was last searched, as its lines say. Raises ResumeRefused."""
    search = run.start.identity.get("search")
    held = search if isinstance(search, dict) else {}
    strategy, model = held.get("strategy"), held.get("cost_model", Wishes.cost_model)
    what = f"the run {plain(run.start.run)} cannot go on:"
    if not held:
        raise ResumeRefused(what, differences({}, {}))
    if strategy not in STRATEGIES or model not in COST_MODELS:
        raise ResumeRefused(what, ("its strategy or its cost model is none that is known",))
    known = [one.name for one in fields(strategies.settings_of(strategy))]
    settings = {name: held[name] for name in known if name in held}
    try:
        options = Options.from_data(run.options)
        strategies.check(strategy, settings)
        if settings.get(HORIZON) == options.horizon:
            del settings[HORIZON]  # It is not given, and follows the options.
        model_settings = _model_settings(model, held)
        prior = NO_PRIOR if model_settings.pop("prior", None) is None else SHIPPED
        nearest = tuple(key_of(str(text)) for text in held.get("nearest_best") or ())
    except (BadOptions, BadSettings) as error:
        raise ResumeRefused(what, (str(error),)) from error
    except (TypeError, ValueError) as error:
        raise ResumeRefused(what, ("what it took from earlier runs cannot be read",)) from error
    return Wishes(options, strategy, model, None, settings, model_settings, nearest, prior)


def _model_settings(model: str, search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's cost model that its first line holds. Raises BadSettings."""
    start = "model_"
    held = {n.removeprefix(start): v for n, v in search.items() if n.startswith(start)}
    models.make(model, 0, {name: value for name, value in held.items() if name != "prior"})
    return held


def check_resume(task: Task, machine: Machine, wishes: Wishes, run: RecordedRun) -> None:
    """Raise ResumeRefused where proposals would depend on something else than in ``run``.

    What measures is not compared: that takes a device.
    """
    landscape = landscape_for(machine, task)
    wishes = _with_prior(wishes, machine, landscape)
    strategy = make_strategy(task.workload, machine.target, wishes, landscape)
    _check_resume(task, machine, wishes, run, strategy)


def _check_resume(
    task: Task, machine: Machine, wishes: Wishes, run: RecordedRun, strategy: Strategy
) -> None:
    known = identity(task.workload, machine.target, strategy, wishes.options.batch)
    refuse_changed(run, known)


def replay_run(task: Task, run: RecordedRun) -> Verdict:
    """Reproduce the proposals of ``run``, which is of ``task``, without a device.

    Raises ResumeRefused where its first line does not say how, UnknownName, NoSketch.
    """
    wishes, target = wishes_of(run), choose_target(run.start.target)
    landscape = landscape_of(run.start, task)
    strategy = make_strategy(task.workload, target, wishes, landscape)
    return replay(run, task.workload, target, strategy, wishes.options.batch)


def make_cost_model(
    name: str,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    inherited: Prior | None = None,
) -> CostModel:
    """Return the cost model of that name, one of COST_MODELS.

    What is ``inherited`` must pass the model's gate unless settings say otherwise. Raises
    UnknownName, BadSettings.
    """
    if name not in COST_MODELS:
        raise unknown("cost model", name, COST_MODELS)
    held = dict(settings or {})
    if inherited is not None:
        held.setdefault("transfer", "gated")
    return models.make(name, seed, held, inherited)


def _with_prior(wishes: Wishes, machine: Machine, landscape: Landscape | None) -> Wishes:
    """Say which prior is meant where it was left open: a model's times have none."""
    if wishes.prior is not None:
        return wishes
    measured = machine.device.startswith("cuda") if landscape is None else landscape.is_measured
    return replace(wishes, prior=SHIPPED if measured else NO_PRIOR)


def _inherited(wishes: Wishes, workload: Workload, target: Target) -> Prior | None:
    """Return what the cost model starts from, without what is known of ``workload`` itself.

    None also where none is shipped for the target. Raises BadPrior, StorageError.
    """
    # Imported where wanted: it loads the learner.
    from cost_model import prior

    if wishes.prior in (None, NO_PRIOR) or wishes.cost_model != LEARNER:
        return None
    path = prior.shipped(target.name) if wishes.prior == SHIPPED else Path(str(wishes.prior))
    if path is None:
        return None
    try:
        held = _loaded_prior(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise StorageError(path, "cannot be read", error) from error
    if held.target != target.name:
        raise BadPrior(f"{path}: it is of {held.target}, not of {target.name}")
    return held.without(workload.key)


@lru_cache(maxsize=4)
def _loaded_prior(path: Path, _changed_ns: int) -> Prior:
    from cost_model import prior

    return prior.load(path)


def make_strategy(
    workload: Workload, target: Target, wishes: Wishes, landscape: Landscape | None = None
) -> Strategy:
    """Return the strategy that was wished for, over the schedules of ``landscape`` if there is one.

    Raises NoSketch, UnknownName, BadSettings.
    """
    if wishes.strategy not in STRATEGIES:
        raise unknown("strategy", wishes.strategy, STRATEGIES)
    grids: Sequence[Grid]
    if landscape is not None:
        grids = RecordedGrid.all_of(landscape)
    else:
        grids = [Grid(sketch, target) for sketch in sketches(workload, target)]
    seed, settings = wishes.options.seed, dict(wishes.settings)
    if HORIZON in (one.name for one in fields(strategies.settings_of(wishes.strategy))):
        settings.setdefault(HORIZON, wishes.options.horizon)
    model = None
    if strategies.learns(wishes.strategy):
        inherited = _inherited(wishes, workload, target)
        model = make_cost_model(wishes.cost_model, seed, wishes.model_settings, inherited)
    return strategies.make(
        wishes.strategy, grids, target, model, seed, settings, nearest=wishes.nearest
    )


def nearest_to(
    workload: Workload, target: Target, observations: Sequence[Observation]
) -> tuple[Key, ...]:
    """Return schedules of ``workload`` that did well for the nearest of what was observed; none
    where no rule suits it."""
    try:
        grids = [Grid(sketch, target) for sketch in sketches(workload, target)]
    except NoSketch:
        return ()
    return nearest(observations, grids)


@dataclass(frozen=True)
class Tuner:
    """Everything that tunes one workload, ready to run."""

    task: Task
    machine: Machine
    wishes: Wishes
    service: Service
    strategy: Strategy
    predictions: OutcomesBySchedule | None
    resume: RecordedRun | None = None

    def library_us(self) -> float | None:
        """Time the library alone, in microseconds, to show what the search is up against.

        None where there is no GPU, or the library cannot compute the workload.
        """
        if self.service.device.kind == "model":
            return None
        library = self.service.compare((), library=True, rounds=LIBRARY_ROUNDS).library
        return library.latency_us if isinstance(library, Timing) else None

    def prepare(
        self, log: LogWriter | None, events: Callable[[Event], None], run: str = ""
    ) -> Running:
        """Return the run for whoever drives it batch by batch; ``run`` is what the log calls it."""
        return prepare(
            self.task,
            self.machine.target,
            self.service,
            self.strategy,
            log,
            self.wishes.options,
            run=run,
            resume=self.resume,
            events=events,
            predictions=self.predictions,
        )

    def run(self, log: LogWriter | None, events: Callable[[Event], None]) -> TuningResult:
        """Search, and return all that was tried; see ``autosched.tune.tuner.tune``."""
        return tune(
            self.task,
            self.machine.target,
            self.service,
            self.strategy,
            log,
            **asdict(self.wishes.options),
            resume=self.resume,
            events=events,
            predictions=self.predictions,
        )


@contextmanager
def open_tuner(
    task: Task,
    machine: Machine,
    wishes: Wishes,
    resume: RecordedRun | None = None,
    crew: Crew | None = None,
    strategy: Strategy | None = None,
) -> Iterator[Tuner]:
    """Yield what tunes ``task``, or goes on with the run ``resume``, its processes running.

    They are those of ``crew`` where there is one, and stay with it. ``strategy`` is taken in
    place of the one that was wished for.

    Raises NoSketch, NoDevice, BadLandscape, UnknownName, ResumeRefused.
    """
    landscape = landscape_for(machine, task)
    wishes = _with_prior(wishes, machine, landscape)
    strategy = strategy or make_strategy(task.workload, machine.target, wishes, landscape)
    if resume is not None:
        _check_resume(task, machine, wishes, resume, strategy)
    if landscape is not None:
        outcomes = RecordedOutcomes(landscape)
        replayed = ReplayDevice(device_info(landscape), outcomes, library_timing(landscape))
        yield Tuner(task, machine, wishes, replayed, strategy, outcomes, resume)
        return
    predictions = None
    if machine.device == "model":
        predictions = PredictedTimes(machine.target, wishes.options.seed)
    with open_service(
        task.workload,
        machine.target,
        machine.device,
        predict=predictions,
        timeout_s=wishes.timeout_s or 10.0,
        build_timeout_s=(predictions and wishes.timeout_s) or BUILD_TIMEOUT_S,
        seed=wishes.options.seed,
        crew=crew,
    ) as service:
        yield Tuner(task, machine, wishes, service, strategy, predictions, resume)


@dataclass(frozen=True)
class Part:
    """One task of a suite, how it is searched, and the run to go on with."""

    task: Task
    wishes: Wishes
    resume: RecordedRun | None = None


@contextmanager
def open_suite(
    parts: Sequence[Part], machine: Machine, log: LogWriter | None, crew: Crew
) -> Iterator[tuple[Member, ...]]:
    """Yield the members of a suite, whose services open when wanted and close at the end.

    Raises NoSketch for any of them at once; what ``open_tuner`` raises when a service opens.
    """
    for part in parts:
        sketches(part.task.workload, machine.target)
    with ExitStack() as stack:
        yield tuple(_member(part, machine, log, crew, stack) for part in parts)


def _member(
    part: Part, machine: Machine, log: LogWriter | None, crew: Crew, stack: ExitStack
) -> Member:
    task, wishes, resume = part.task, part.wishes, part.resume
    started = run_name(task, wishes.options.seed, datetime.now(UTC))
    name = resume.start.run if resume else started

    def open_run(events: Callable[[Event], None]) -> Running:
        tuner = stack.enter_context(open_tuner(task, machine, wishes, resume, crew))
        running = tuner.prepare(log, events, name)
        library_us = tuner.library_us()
        if library_us is not None:
            events(LibraryTimed(library_us))
        return running

    stake = stake_of(task.workload, machine.target, task.weight)
    return Member(task, stake, name, open_run, resume)
