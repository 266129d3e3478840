"""What several runs look like while they take turns: a live table, or one plain line a turn.

Draws on standard error, from events alone. Knows neither the search nor the device.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Group
from rich.live import Live
from rich.table import Table

from autosched.cli import wording
from autosched.cli.output import Output, console
from autosched.cli.screen import REFRESHES_PER_S, View, advance, best_text
from autosched.tune.events import Event, FinalsStarted, RoundDone, RoundStarted, RunStarted
from autosched.tune.suite import Bounds

SuiteListener = Callable[[int, Event], None]


@dataclass
class SuiteView:
    """What of a suite is on the screen: a view of each task, by position, and turns so far."""

    names: Sequence[str]
    bounds: Bounds
    scheduler: str
    started_s: float
    views: list[View] = field(init=False)
    turns: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.views = [View(phase="not started") for _ in self.names]
        self.turns = [0 for _ in self.names]

    def advance(self, n: int, event: Event) -> None:
        """Take in an event of a task."""
        self.views[n] = advance(self.views[n], event)
        if isinstance(event, RoundStarted):
            self.turns[n] += 1

    @property
    def trials(self) -> int:
        """Attempts of all tasks."""
        return sum(view.progress.trials for view in self.views if view.progress)

    def summary(self, now_s: float) -> str:
        """Write how far all have come together."""
        spent_s = now_s - self.started_s
        total, budget_s = self.bounds.total_trials, self.bounds.budget_s
        of_total = "" if total is None else f" of {total}"
        of_budget = "" if budget_s is None else f" of {wording.duration(budget_s)}"
        return (
            f"{self.scheduler}: turn {sum(self.turns)}, {self.trials}{of_total} trials, "
            f"{wording.duration(spent_s)}{of_budget}"
        )


def table(view: SuiteView, now_s: float) -> Group:
    """Draw the view: all together, which stays on the screen, and below the tasks side by side."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("workload", "turns", "trials", "failed", "best", "state"):
        grid.add_column(name, justify="left" if name in ("workload", "best", "state") else "right")
    for name, one, turns in zip(view.names, view.views, view.turns, strict=True):
        progress = one.progress
        failed = sum(progress.failures.values()) if progress else 0
        grid.add_row(
            name,
            str(turns),
            str(progress.trials if progress else 0),
            str(failed),
            best_text(one, progress) if progress else "-",
            one.phase,
        )
    return Group(view.summary(now_s), grid)


@contextmanager
def suite_screen(
    output: Output,
    names: Sequence[str],
    bounds: Bounds,
    scheduler: str,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[SuiteListener]:
    """Yield what shows the events of several runs, in the manner that suits standard error."""
    view = SuiteView(names, bounds, scheduler, clock())
    if output.quiet:
        yield lambda _, __: None
    elif sys.stderr.isatty():
        terminal = console(sys.stderr)
        drawn = table(view, clock())
        with Live(drawn, console=terminal, refresh_per_second=REFRESHES_PER_S) as live:
            yield _listener(view, lambda _, __: live.update(table(view, clock())))
    else:
        yield _listener(view, lambda n, event: _say_line(output, view, n, event, clock()))


def _listener(view: SuiteView, show: Callable[[int, Event], None]) -> SuiteListener:
    """Return what keeps the view up to date; events come from several threads."""
    lock = threading.Lock()

    def listen(n: int, event: Event) -> None:
        with lock:
            view.advance(n, event)
            show(n, event)

    return listen


def _say_line(output: Output, view: SuiteView, n: int, event: Event, now_s: float) -> None:
    one = view.views[n]
    match event:
        case RunStarted(label, _, _, recorded):
            known = f": {recorded} trials in the log" if recorded else ""
            output.say(f"{view.names[n]}: {label} on {one.device}{known}")
        case RoundDone(number, progress):
            failed = sum(progress.failures.values())
            output.say(
                f"{view.names[n]} round {number}: {progress.trials} trials, "
                f"best {best_text(one, progress)}, {failed} failed; {view.summary(now_s)}"
            )
        case FinalsStarted():
            output.say(f"{view.names[n]}: {one.phase}")
