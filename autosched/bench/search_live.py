"""Compare guided with random search live: python -m autosched.bench.search_live SPEC [options]

Knows which strategies are compared, by name alone; ``assemble`` makes them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from autosched import assemble
from autosched.bench.contest import Contest, Outcome, Referee
from autosched.bench.device import machine, name_of_device, versions
from autosched.bench.referee import GpuReferee
from autosched.bench.row import Interval
from autosched.bench.search_compare import (
    GUIDED,
    RANDOM,
    RunSearch,
    Search,
    search_compare,
    search_of,
    table,
    write,
)
from autosched.machine import Machine, choose_machine
from autosched.spec import Task, load
from autosched.tune.candidate import Candidate
from autosched.tune.options import Options
from cost_model.analytic_model import predict_us
from search_space.target import Target

STRATEGIES = {GUIDED: "evolution", RANDOM: "random"}


class Searches:
    """Runs searches of one workload, and remembers what the model says of the winners."""

    def __init__(self, task: Task, chosen: Machine, trials: int, batch: int) -> None:
        self._task = task
        self._machine = chosen
        self._trials = trials
        self._batch = batch
        self._predicted_us: dict[str, float] = {}

    def run(self, strategy: str, seed: int) -> Search:
        """Run one search to its last trial: nothing but their number ends it."""
        options = Options(self._trials, self._batch, seed=seed, horizon=self._trials)
        wishes = assemble.Wishes(options, strategy=STRATEGIES[strategy])
        with assemble.open_tuner(self._task, self._machine, wishes) as tuner:
            result = tuner.run(None, lambda _: None)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.best and result.best.trial.program:
            trial = result.best.trial
            time_us = _predicted_us(trial.candidate, self._machine.target)
            self._predicted_us[result.best.trial.program.fingerprint] = time_us
        return search_of(strategy, seed, result)

    def predict(self, contest: Contest) -> Outcome:
        """Compare winners on a machine without a GPU: by the model, without noise."""
        times = {n: self._predicted_us[p.fingerprint] for n, p in contest.programs.items()}
        return Outcome(times_us={n: Interval(t, t, t) for n, t in times.items()})


def _predicted_us(candidate: Candidate, target: Target) -> float:
    row = [[candidate.choices[name] for name in candidate.sketch.names]]
    return float(predict_us(candidate.sketch, np.array(row, np.int64), target)[0])


def compare(
    task: Task, chosen: Machine, *, trials: int, seeds: int, batch: int = 32
) -> dict[str, Any]:
    """Return the comparison on one workload as plain data; ``predicted`` marks a model's times."""
    searches = Searches(task, chosen, trials, batch)
    with _referee(searches, chosen) as referee:
        run: RunSearch = searches.run
        data = search_compare(task.workload, run, referee, range(seeds))
    return {"id": task.id, **data, "predicted": chosen.device == "model"}


@contextmanager
def _referee(searches: Searches, chosen: Machine) -> Iterator[Referee]:
    if chosen.device == "model":
        yield searches.predict
        return
    with GpuReferee(chosen.device) as referee:
        yield referee


@click.command()
@click.argument("spec")
@click.option("--trials", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--target", default=None)
@click.option("--only", default="", help="Workloads of a suite, separated by commas.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(
    spec: str, trials: int, seeds: int, device: str, target: str | None, only: str, out: Path
) -> None:
    """Search each workload of SPEC with and without a model, SEEDS times, and compare."""
    chosen = choose_machine(device, target)
    names = set(filter(None, only.split(",")))
    tasks = [task for task in load(spec) if not names or task.id in names]
    gpu = name_of_device(chosen.device)
    origin = {
        "machine": machine(gpu or f"none ({chosen.target.name} predicted)"),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "autosched.bench.search_live", *sys.argv[1:]]),
    }
    suffix = "" if gpu else "-predicted"
    found = []
    for task in tasks:
        found.append(compare(task, chosen, trials=trials, seeds=seeds))
        write(out / f"search-{chosen.target.name}{suffix}.json", found, origin)
        click.echo(table(found[-1]))


if __name__ == "__main__":
    main()
