"""Runs an experiment into its folder: what is missing, in whatever order, then the tables.

A run depends on its arm, its landscape and its seed alone, so that neither their order nor the
number of processes leaves a trace.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.experiment.components import prior_of, strategy_of
from autosched.experiment.curve import Curve
from autosched.experiment.error import BadFolder
from autosched.experiment.folder import RESOLVED, SUMMARY, VERSIONS, Folder, RunName
from autosched.experiment.live import live_runs, with_best_known
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.place import make_landscape, open_landscape
from autosched.experiment.plan import Arm, Experiment, Place
from autosched.experiment.ranking import rank
from autosched.experiment.ranking_tables import ranking_tables
from autosched.experiment.search import Run, search
from autosched.experiment.summary import summary
from autosched.experiment.tables import Results, tables
from autosched.experiment.turns import take_turns
from autosched.experiment.version import versions
from autosched.spec import SpecError, yaml_file
from autosched.tune.strategy import Strategy
from cost_model.prior import Prior
from cost_model.settings import BadPrior


@dataclass(frozen=True)
class RunDone:
    """A run was done now: which, how many of how many are done, and its lines."""

    name: RunName
    done: int
    total: int
    lines: Sequence[Mapping[str, Any]]


def run(
    experiment: Experiment,
    path: Path,
    *,
    jobs: int = 1,
    events: Callable[[RunDone], None] = lambda _: None,
) -> Mapping[str, Any]:
    """Run what is missing in the folder at ``path``, write the tables and return the summary.

    An interrupt from the keyboard is raised once what was under way in processes is kept; the
    folder can be gone on with.

    Raises:
        BadFolder: the folder holds another experiment, or was made with other versions.
        SpecError: a landscape is none, holds no time, or has changed.
        measure.disk.StorageError: the folder cannot be written.
        search_space.rules.NoSketch: nothing suits a workload.
    """
    folder = Folder(path)
    _claim(folder, experiment)
    outcomes = Library(experiment)
    wanted = run_names(experiment)
    for name in folder.runs():
        if name not in wanted:
            raise BadFolder(folder.run_path(name), "is no run of this experiment")
    missing = [name for name in wanted if not folder.has(name)]
    done = len(wanted) - len(missing)
    for name, made in _made(experiment, folder, outcomes, missing, jobs):
        folder.append_timings([_timing(name, made)] if made.ask_s else [])
        done += 1
        events(RunDone(name, done, len(wanted), made.lines))
    return tabulate(experiment, folder, outcomes)


def tabulate(experiment: Experiment, folder: Folder, outcomes: Library) -> Mapping[str, Any]:
    """Write the tables and the summary of runs that are all there; return the summary."""
    runs: dict[RunName, list[Mapping[str, Any]]] = {
        name: [*folder.read_run(name)] for name in run_names(experiment)
    }
    held = dict[str, Outcomes]()
    if experiment.device == "cuda":
        runs = with_best_known(runs)
    else:
        held = {place.name: outcomes.of(place) for place in experiment.places}
    if experiment.kind == "ranking":
        found = list(ranking_tables(experiment, runs))
    else:
        curves = {name: Curve.of(name, lines) for name, lines in runs.items()}
        found = list(tables(Results(experiment, held, curves)))
    for table in found:
        folder.write_table(table.name, table.columns, table.rows)
    predicted = any(lines[0]["predicted"] for lines in runs.values())
    whole = summary(experiment, found, predicted=predicted)
    folder.write_json(SUMMARY, whole)
    return whole


def run_names(experiment: Experiment) -> list[RunName]:
    """Return every run of an experiment: seeds first, so that all arms come along together."""
    return [
        RunName(tried_on, arm.name, seed)
        for seed in experiment.seeds
        for tried_on in experiment.tried_on
        for arm in experiment.arms
    ]


class Library:
    """The outcomes of an experiment's places, each loaded once, when it is first asked for."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._held: dict[str, Outcomes] = {}
        self._priors: dict[str, Prior] = {}

    def of(self, place: Place) -> Outcomes:
        """Return the outcomes of ``place``. Raises SpecError, NoSketch."""
        if place.name not in self._held:
            self._held[place.name] = self._load(place)
        return self._held[place.name]

    def others(self, place: Place) -> list[Outcomes]:
        """Return the outcomes of all other places."""
        return [self.of(other) for other in self._experiment.places if other.name != place.name]

    def inherited(self, place: Place, arm: Arm) -> Prior | None:
        """Return what the arm's models inherit on ``place``. Raises SpecError."""
        if arm.prior == "none" or not arm.inherits:
            return None
        if place.name not in self._priors:
            try:
                self._priors[place.name] = prior_of(self.others(place))
            except BadPrior as error:
                raise SpecError(f"prior: others, for {place.name}: {error}") from error
        return self._priors[place.name]

    def _load(self, place: Place) -> Outcomes:
        if place.spec is None:
            found = _recorded(place)
        else:
            found = Outcomes.of(make_landscape(place, self._experiment.modelled))
        if found.optimum_us == float("inf"):
            raise SpecError(f"{place.name}: no schedule of it has a time, so nothing is compared")
        return found


@lru_cache(maxsize=32)
def _recorded(place: Place) -> Outcomes:
    return Outcomes.of(open_landscape(place))


def _claim(folder: Folder, experiment: Experiment) -> None:
    """Make the folder this experiment's, or see that it is. Raises BadFolder."""
    data, now = experiment.to_data(), versions()
    path = folder.path / RESOLVED
    if path.exists():
        try:
            held = yaml_file.read(str(path)).data
        except SpecError as error:
            raise BadFolder(path, f"cannot be read: {error}") from error
        for name in dict.fromkeys((*data, *held)):
            if without_files(data.get(name)) != without_files(held.get(name)):
                raise BadFolder(
                    path, f"is of another experiment: {name} differs; name another --out"
                )
        then = folder.read_json(VERSIONS)
        for name in dict.fromkeys((*now, *then)):
            if now.get(name) != then.get(name):
                fact = f"{name} was {then.get(name)} and is {now.get(name)}; name another --out"
                raise BadFolder(folder.path / VERSIONS, fact)
        return
    if folder.path.exists() and any(folder.path.iterdir()):
        raise BadFolder(folder.path, f"holds other things and no {RESOLVED}")
    folder.write_text(RESOLVED, yaml_file.write(data))
    folder.write_json(VERSIONS, now)


def without_files(data: Any) -> Any:
    """Return what a resolved file says less where landscapes lie, which is no part of them."""
    if isinstance(data, list):
        return [without_files(entry) for entry in data]
    if isinstance(data, Mapping) and "sha256" in data:
        return {name: value for name, value in data.items() if name != "file"}
    return data


def _made(
    experiment: Experiment, folder: Folder, outcomes: Library, missing: list[RunName], jobs: int
) -> Iterator[tuple[RunName, Run]]:
    """Yield runs as they are done and written, by ``jobs`` processes; a GPU does one at a time."""
    if experiment.device == "cuda":
        for name, made in live_runs(experiment, missing):
            folder.write_run(name, made.lines)
            yield name, made
        return
    if jobs == 1 or len(missing) < 2:
        yield from ((name, _one(experiment, folder, outcomes, name)) for name in missing)
        return
    # Spawned, as a learner that has started threads does not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(missing)), context, _start, (experiment, folder))
    try:
        futures = {pool.submit(_work, name): name for name in missing}
        yield from ((futures[future], future.result()) for future in as_completed(futures))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one(experiment: Experiment, folder: Folder, outcomes: Library, name: RunName) -> Run:
    arm = next(arm for arm in experiment.arms if arm.name == name.arm)
    if experiment.kind == "suite":
        strategies = [_strategy(outcomes, place, arm, name.seed) for place in experiment.places]
        held = [outcomes.of(place) for place in experiment.places]
        made = take_turns(experiment, held, arm, name.seed, strategies)
    else:
        place = next(place for place in experiment.places if place.name == name.landscape)
        made = _on(experiment, outcomes, place, arm, name.seed)
    folder.write_run(name, made.lines)
    return made


def _on(experiment: Experiment, outcomes: Library, place: Place, arm: Arm, seed: int) -> Run:
    held = outcomes.of(place)
    if experiment.kind == "search":
        return search(experiment, held, arm, seed, _strategy(outcomes, place, arm, seed))
    others = outcomes.others(place) if experiment.ranking.held_out == "workload" else []
    return rank(experiment, held, others, arm, seed, outcomes.inherited(place, arm))


def _strategy(outcomes: Library, place: Place, arm: Arm, seed: int) -> Strategy:
    others = outcomes.others(place) if arm.prior == "others" else []
    return strategy_of(arm, seed, outcomes.of(place), others, outcomes.inherited(place, arm))


#: What a process of the pool works on: the experiment, its folder and its outcomes.
_HERE: list[tuple[Experiment, Folder, Library]] = []


def _start(experiment: Experiment, folder: Folder) -> None:
    # The keyboard's interrupt is for whoever collects; what is under way is finished and kept.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _HERE[:] = [(experiment, folder, Library(experiment))]


def _work(name: RunName) -> Run:
    return _one(*_HERE[0], name)


def _timing(name: RunName, made: Run) -> Mapping[str, Any]:
    return {
        "landscape": name.landscape,
        "arm": name.arm,
        "seed": name.seed,
        "asks": len(made.ask_s),
        "ask_s": round(sum(made.ask_s), 6),
    }
