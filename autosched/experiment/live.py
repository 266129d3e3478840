"""Runs of arms on a GPU: nothing is recorded beforehand, times are the clock's.

What is proposed depends on what is measured, so that a rerun gives other bytes. The best known of a
workload is the best that any run found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autosched.assemble import Wishes, open_tuner
from autosched.experiment.folder import RunName
from autosched.experiment.plan import Arm, Experiment, Place
from autosched.experiment.search import Line, Run, rounded
from autosched.machine import Machine, choose_machine
from autosched.spec import SpecError, from_data
from autosched.tune import strategies
from autosched.tune.events import Event, TrialDone
from autosched.tune.options import Options
from autosched.tune.result import Trial, TuningResult
from cost_model.machine import roofline_us
from measure.crew import Crew
from measure.measurement import Failed, Timed


def live_runs(experiment: Experiment, missing: Sequence[RunName]) -> Iterator[tuple[RunName, Run]]:
    """Yield runs as they are done, one after another.

    Raises NoDevice where there is no GPU, UnknownName where no target describes it, NoSketch; and
    KeyboardInterrupt, after which the run that was cut short is lost.
    """
    if not missing:
        return
    machine = choose_machine("cuda", experiment.target)
    arms = {arm.name: arm for arm in experiment.arms}
    places = {place.name: place for place in experiment.places}
    with Crew() as crew:
        for name in missing:
            arm, place = arms[name.arm], places[name.landscape]
            yield name, _live(experiment, place, arm, name.seed, machine, crew)


def _live(
    experiment: Experiment, place: Place, arm: Arm, seed: int, machine: Machine, crew: Crew
) -> Run:
    task = from_data(place.name, place.spec or {})
    finished_s: dict[int, float] = {}

    def hear(event: Event) -> None:
        if isinstance(event, TrialDone):
            finished_s[event.trial] = event.progress.elapsed_s

    with open_tuner(task, machine, _wishes(experiment, arm, seed), crew=crew) as tuner:
        result = tuner.run(None, hear)
    if result.interrupted:
        raise KeyboardInterrupt
    head = {
        "kind": "run",
        "landscape": place.name,
        "workload": task.workload.key,
        "arm": arm.name,
        "seed": seed,
        "predicted": any(
            isinstance(t.measurement, Timed) and t.measurement.predicted for t in result.trials
        ),
        "roof_us": float(roofline_us(task.workload, machine.target)),
        "optimum_us": None,
    }
    return Run((head, *_lines(result, finished_s), _stop(result)), ())


def _wishes(experiment: Experiment, arm: Arm, seed: int) -> Wishes:
    options = Options(
        trials=experiment.trials,
        batch=arm.batch,
        budget_s=experiment.budget_s,
        early_stopping=experiment.early_stopping,
        finals=0,
        seed=seed,
        horizon=arm.search.get("horizon") or experiment.trials,
    )
    if not strategies.learns(arm.strategy):
        return Wishes(options, arm.strategy, settings=arm.search)
    return Wishes(
        options, arm.strategy, arm.cost_model, settings=arm.search, model_settings=arm.model
    )


def _lines(result: TuningResult, finished_s: Mapping[int, float]) -> Iterator[Line]:
    for trial in result.trials:
        sketch, choices = trial.candidate.key
        outcome = trial.measurement
        yield {
            "kind": "trial",
            "trial": trial.number,
            "round": trial.round,
            "sketch": sketch,
            "choices": list(choices),
            "origin": trial.candidate.origin,
            "score": trial.candidate.score,
            "program": _program(trial),
            "us": trial.latency_us,
            "failure": outcome.kind.value if isinstance(outcome, Failed) else None,
            "quarantined": isinstance(outcome, Timed) and outcome.quarantined,
            "at_s": rounded(finished_s[trial.number]),
        }


def _program(trial: Trial) -> str:
    return trial.program.fingerprint if trial.program else ""


def _stop(result: TuningResult) -> Line:
    at_s = rounded(result.elapsed_s)
    return {
        "kind": "stop",
        "reason": result.stopped,
        "trials": len(result.trials),
        "at_s": at_s,
    }


def with_best_known(
    runs: Mapping[RunName, Sequence[Mapping[str, Any]]],
) -> dict[RunName, list[Mapping[str, Any]]]:
    """Return runs with the best that any of them found as what is known of their workload.

    Raises SpecError where none found any.
    """
    best: dict[str, float] = {}
    for name, lines in runs.items():
        for line in lines:
            if line["kind"] == "trial" and line["us"] is not None and not line["quarantined"]:
                best[name.landscape] = min(best.get(name.landscape, line["us"]), line["us"])
    missing = {name.landscape for name in runs} - set(best)
    if missing:
        raise SpecError(f"{min(missing)}: no run of it has a time, so nothing is compared")
    return {
        name: [{**lines[0], "optimum_us": best[name.landscape]}, *lines[1:]]
        for name, lines in runs.items()
    }
