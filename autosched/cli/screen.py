"""What a tuning run looks like while it goes on: a live table, or one plain line a round.

Draws on standard error, from events alone. Knows neither the search nor the device.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.live import Live
from rich.table import Table

from autosched.cli import wording
from autosched.cli.output import Output, console
from autosched.tune.events import (
    Event,
    FinalsDone,
    FinalsStarted,
    LibraryTimed,
    Progress,
    RoundDone,
    RoundStarted,
    RunDone,
    RunStarted,
    TrialDone,
)

Listener = Callable[[Event], None]
REFRESHES_PER_S = 4


@dataclass(frozen=True)
class View:
    """What of a run is on the screen. ``library_us`` is the time to beat, where it is known."""

    label: str = ""
    device: str = ""
    library_us: float | None = None
    phase: str = "starting"
    round: int = 0
    progress: Progress | None = None
    best: str = ""
    last: RoundDone | None = None


def advance(view: View, event: Event) -> View:
    """Return the view after ``event``."""
    match event:
        case RunStarted(label, device):
            gpu = device.gpu_name or f"a model of {device.target_name}"
            gpu = f"{gpu}, as recorded" if device.kind == "replay" else gpu
            return replace(view, label=label, device=gpu, phase="searching")
        case LibraryTimed(latency_us):
            return replace(view, library_us=latency_us)
        case RoundStarted(number, _):
            return replace(view, round=number)
        case TrialDone(trial, candidate, _, improved, progress):
            best = f"{candidate.sketch.name}, trial {trial}" if improved else view.best
            return replace(view, progress=progress, best=best)
        case RoundDone(_, progress):
            return replace(view, progress=progress, last=event)
        case FinalsStarted(entrants):
            return replace(view, phase=f"measuring the best {entrants} again, in turns")
        case FinalsDone(_):
            return replace(view, phase="ranked")
        case RunDone(stopped, progress):
            return replace(view, phase=f"stopped: {stopped}", progress=progress)


def round_line(view: View, done: RoundDone) -> str:
    """Write a round as one line."""
    progress = done.progress
    parts = [
        f"round {done.round}: {progress.trials}/{progress.total} trials",
        f"best {best_text(view, progress)}",
        f"failed {sum(progress.failures.values())} ({wording.census(progress.failures)})"
        if progress.failures
        else "none failed",
        f"{progress.trials_per_s:.1f} candidates/s",
    ]
    if progress.left_s is not None and progress.trials < progress.total:
        parts.append(f"{wording.duration(progress.left_s)} left")
    return ", ".join(parts)


def best_text(view: View, progress: Progress) -> str:
    """Write the best time so far and, where the library's is known, the ratio to it."""
    if progress.incumbent_us is None:
        return "none yet"
    text = wording.microseconds(progress.incumbent_us)
    if view.library_us is None:
        return text
    return f"{text} ({view.library_us / progress.incumbent_us:.3f} of the library's speed)"


def table(view: View) -> Table:
    """Draw the view."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    for name, text in _rows(view):
        grid.add_row(name, text)
    return grid


def _rows(view: View) -> Iterator[tuple[str, str]]:
    yield view.label, f"on {view.device}, {view.phase}"
    progress = view.progress
    if progress is None:
        return
    left = "" if progress.left_s is None else f", {wording.duration(progress.left_s)} left"
    yield "trials", f"{progress.trials} of {progress.total}, round {view.round}{left}"
    yield "built", f"{progress.built}, at {progress.trials_per_s:.1f} candidates/s"
    yield "failed", wording.census(progress.failures)
    best = f", {view.best}" if view.best else ""
    yield "best", best_text(view, progress) + best
    if view.last:
        then = view.last.progress
        text = f"{view.last.round}, best {best_text(view, then)} at {then.trials} trials"
        yield "last round", text


@contextmanager
def screen(output: Output, library_us: float | None) -> Iterator[Listener]:
    """Yield what shows the events of one run, in the manner that suits standard error."""
    view = View(library_us=library_us)
    if output.quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        terminal = console(sys.stderr)
        with Live(table(view), console=terminal, refresh_per_second=REFRESHES_PER_S) as live:
            yield _listener(view, lambda after, _: live.update(table(after)))
    else:
        yield _listener(view, lambda after, event: _say_line(output, after, event))


def _listener(view: View, show: Callable[[View, Event], None]) -> Listener:
    """Return what keeps the view up to date; events come from several threads."""
    lock = threading.Lock()

    def listen(event: Event) -> None:
        nonlocal view
        with lock:
            view = advance(view, event)
            show(view, event)

    return listen


def _say_line(output: Output, view: View, event: Event) -> None:
    match event:
        case RunStarted(_, _, trials, recorded):
            known = f", {recorded} of them in the log" if recorded else ""
            output.say(f"{view.label} on {view.device}: {trials} trials{known}")
        case RoundDone():
            output.say(round_line(view, event))
        case FinalsStarted():
            output.say(view.phase)
