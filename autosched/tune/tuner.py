"""The loop: propose, build, measure, tell. Picks no schedule and measures nothing itself.

Building, measuring and training overlap, and the clock leaves no trace in proposals: see
``course`` and ``running``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from autosched.spec.task import Task
from autosched.tune.course import OVERLAP, Course
from autosched.tune.events import Event
from autosched.tune.identity import ResumeRefused, device_differences, differences, identity
from autosched.tune.journal import Journal
from autosched.tune.ledger import Ledger
from autosched.tune.options import Options
from autosched.tune.recorded import RecordedRun
from autosched.tune.result import TuningResult
from autosched.tune.running import Running
from autosched.tune.strategy import OutcomesBySchedule, Strategy
from measure.log import LogWriter
from measure.service import Service
from search_space.target import Target


def tune(
    task: Task,
    target: Target,
    service: Service,
    strategy: Strategy,
    log: LogWriter | None,
    *,
    trials: int,
    batch: int = 32,
    budget_s: float | None = None,
    early_stopping: int | None = None,
    finals: int = 8,
    final_rounds: int = 50,
    seed: int = 0,
    horizon: int = 320,
    run: str = "",
    resume: RecordedRun | None = None,
    events: Callable[[Event], None] = lambda _: None,
    predictions: OutcomesBySchedule | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> TuningResult:
    """Search for a fast schedule of ``task`` and return all that was tried.

    ``service`` must be open for the workload and stays the caller's; so does ``log``. The bounds
    are those of ``Options``; ``seed`` and ``horizon`` are for the log, where ``run`` names the run
    (by default after the workload, the time and the seed). ``resume`` is a run to go on with:
    ``strategy`` must be as new, is asked for and told what the run recorded, and goes on from
    there; ``trials`` are the total, ``budget_s`` counts from now. ``predictions`` are told of
    every program, for a service that takes its times from them. ``clock`` gives seconds that
    never go back, ``now`` the time in UTC. An interrupt from the keyboard ends the search; what
    was found is kept.

    Raises:
        ResumeRefused: something has changed that proposals depend on, or they are not those of
            the log. Nothing was measured or written.
        measure.disk.StorageError: the log cannot be written; what it holds stays sound.
        measure.service.NoDevice: the device is gone.
    """
    options = Options(trials, batch, budget_s, early_stopping, finals, final_rounds, seed, horizon)
    running = prepare(
        task,
        target,
        service,
        strategy,
        log,
        options,
        run=run,
        resume=resume,
        events=events,
        predictions=predictions,
        clock=clock,
        now=now,
    )
    running.catch_up()
    running.begin()
    try:
        _search(running)
        running.hold_finals()
    except KeyboardInterrupt:
        running.interrupt()
        running.stopped = "interrupted"
    return running.result()


def prepare(
    task: Task,
    target: Target,
    service: Service,
    strategy: Strategy,
    log: LogWriter | None,
    options: Options,
    *,
    run: str = "",
    resume: RecordedRun | None = None,
    events: Callable[[Event], None] = lambda _: None,
    predictions: OutcomesBySchedule | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Running:
    """Return the run that ``tune`` drives, for whoever drives it otherwise; not yet begun."""
    known = identity(task.workload, target, strategy, options.batch)
    if resume is not None:
        refuse_changed(resume, known, service)
        run = resume.start.run
    journal = Journal(
        log,
        run=run or run_name(task, options.seed, now()),
        workload=task.workload,
        device=service.device,
        seed=options.seed,
        now=now,
    )
    return Running(
        task=task,
        target=target,
        service=service,
        course=Course(task.workload, target, strategy, options.batch),
        journal=journal,
        options=options,
        identity=known,
        resume=resume,
        events=events,
        predictions=predictions,
        ledger=Ledger(max(options.trials, len(resume.trials) if resume else 0), clock),
    )


def run_name(task: Task, seed: int, now: datetime) -> str:
    """Return what a run that starts now is called in a log."""
    return f"{task.workload.key}-{now:%Y%m%dT%H%M%S%f}-{seed}"


def _search(running: Running) -> None:
    """Have ``OVERLAP`` batches on their way while there is more to try, and wait for the rest."""
    flying = deque(running.waiting)
    for flight in flying:
        running.submit(flight)
    while True:
        while len(flying) < OVERLAP and (following := running.propose()):
            running.submit(following)
            flying.append(following)
        if not flying:
            running.tell_rest()
            return
        running.settle(flying.popleft())


def refuse_changed(
    resume: RecordedRun, known: Mapping[str, Any], service: Service | None = None
) -> None:
    """Raise ResumeRefused where what ``resume`` says of itself is not ``known``, an identity.

    With ``service`` what measures counts too.
    """
    start = resume.start
    found = differences(start.identity, known)
    if service is not None:
        found += device_differences(start, service.device)
    if found:
        raise ResumeRefused(f"the run {start.run} cannot go on:", found)
