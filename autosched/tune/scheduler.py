"""Which of several tasks gets the next batch. Pure: knows outcomes, and no clock, device or log.

A **turn** is one batch. Whoever asks grants the turn, and asks again once the outcomes of all turns
but the last one are known: while one batch is measured, the next is built. Equal outcomes give
equal turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from random import Random
from typing import Any, Protocol

#: Similar tasks differ in arithmetic and in compulsory traffic by no more than this factor: what
#: bounds one of them bounds the other.
ALIKE = 2.0
NAMES = ("gradient", "round-robin", "sequential")


class BadScheduler(ValueError):
    """Plain data that make no scheduler; the message names the wish and the fact."""


@dataclass(frozen=True)
class Stake:
    """What a task is to a scheduler.

    ``weight`` is how often the workload runs in whatever the tasks are parts of. ``operations``
    and ``bytes`` are its arithmetic and its compulsory traffic, ``family`` is equal for workloads
    that differ in sizes alone. ``floor_us`` are the microseconds below which nobody gets.
    """

    weight: float = 1.0
    operations: int = 0
    bytes: int = 0
    family: str = ""
    floor_us: float = 0.0

    def like(self, other: Stake) -> bool:
        """Say whether the rate that one reaches tells what the other could."""
        pairs = ((self.operations, other.operations), (self.bytes, other.bytes))
        near = all(max(pair) <= ALIKE * min(pair) for pair in pairs)
        return self.family == other.family and self.operations > 0 and near


@dataclass(frozen=True)
class History:
    """What became of a task. ``granted`` counts its turns, those on their way included.

    ``best_us`` is the least time in microseconds after each turn whose outcomes are known, None
    while no candidate has worked. A task that is not ``open`` takes no more turns.
    """

    granted: int = 0
    best_us: tuple[float | None, ...] = ()
    open: bool = True

    @property
    def latency_us(self) -> float | None:
        """The least time so far."""
        return self.best_us[-1] if self.best_us else None

    @property
    def awaited(self) -> bool:
        """Whether it has had turns, and nothing is known of them."""
        return self.granted > 0 and not self.best_us


class Scheduler(Protocol):
    """Shares turns out. Its choice depends on its arguments and on the histories alone."""

    name: str

    @property
    def settings(self) -> Mapping[str, float | int]:
        """The arguments that choices depend on beside the tasks, for the log."""

    def choose(self, histories: Sequence[History]) -> int | None:
        """Return whose turn is next, by position; None where no task is open."""


class Sequential:
    """One task after another, each to its end."""

    name = "sequential"
    settings: Mapping[str, float | int] = {}

    def choose(self, histories: Sequence[History]) -> int | None:
        """Return the first task that is open."""
        return next(iter(_open(histories)), None)


class RoundRobin:
    """Turns in equal numbers."""

    name = "round-robin"
    settings: Mapping[str, float | int] = {}

    def choose(self, histories: Sequence[History]) -> int | None:
        """Return the open task with the fewest turns, the first of equals."""
        return min(_open(histories), key=lambda n: (histories[n].granted, n), default=None)


@dataclass(frozen=True)
class GradientSettings:
    """How ``Gradient`` weighs what it sees.

    ``alpha`` is the trust in the gain of the last ``window`` turns against what is hoped for,
    ``beta`` how far a task is trusted to reach the rate of similar ones, ``epsilon`` the share of
    turns that are drawn, by ``seed``, from all open tasks. The first three are those of Ansor.
    Every task has ``warm_up`` turns before any has more: the first two of a run are proposed
    before any outcome is known, and the third gains the most of all that follow.
    """

    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    warm_up: int = 3
    epsilon: float = 0.05
    seed: int = 0


class Gradient:
    """Turns go where the weighted sum of all times is expected to fall most.

    The task scheduler of Ansor (Zheng et al., "Ansor: Generating High-Performance Tensor Programs
    for Deep Learning", OSDI 2020, section 6) for the objective ``f = sum w_i g_i``, where g_i(t)
    is the best time of task i after t turns::

        |df/dt_i| ~ w_i |alpha (g_i(t) - g_i(t - window)) / window
                         + (1 - alpha) min(-g_i / t, beta C_i / max V_k - g_i)|

    C_i are the operations of task i, V_k the rates of the tasks similar to it, itself among them.
    The first term is what its last turns gained, the second the hope: that all time goes in as
    many turns again, or that the task comes up to similar ones. Different from the paper, only
    the time above ``floor_us`` can go, tasks are similar only where sizes are too
    (``Stake.like``), and turns on their way count into t.

    A task in which no candidate has worked has no gradient; it has a turn whenever it has had no
    more of them than tasks have on average.
    """

    name = "gradient"

    def __init__(
        self,
        stakes: Sequence[Stake],
        settings: GradientSettings = GradientSettings(),
    ) -> None:
        self._stakes = tuple(stakes)
        self._how = settings
        self._similar = [
            [k for k, other in enumerate(stakes) if k == n or stake.like(other)]
            for n, stake in enumerate(stakes)
        ]

    @property
    def settings(self) -> Mapping[str, float | int]:
        """The arguments beside the tasks."""
        return asdict(self._how)

    def choose(self, histories: Sequence[History]) -> int | None:
        """Return the open task with the steepest gradient, of equals the one with fewest turns."""
        open_ = _open(histories)
        fewest = RoundRobin().choose(histories)
        if fewest is None or histories[fewest].granted < self._how.warm_up:
            return fewest
        granted = sum(history.granted for history in histories)
        rng = Random(f"{self._how.seed}:{granted}")
        if rng.random() < self._how.epsilon:
            return rng.choice(open_)
        known = [n for n in open_ if not histories[n].awaited]
        if not known:
            return fewest
        unproven = [n for n in known if histories[n].latency_us is None]
        if unproven:
            first = min(unproven, key=lambda n: histories[n].granted)
            if histories[first].granted * len(histories) <= granted:
                return first
        timed = [n for n in known if n not in unproven]
        if not timed:
            return fewest
        return min(timed, key=lambda n: (self._gradient(n, histories), histories[n].granted, n))

    def _gradient(self, task: int, histories: Sequence[History]) -> float:
        """Return the expected change of the objective by one more turn of ``task``; at most 0."""
        how, history, stake = self._how, histories[task], self._stakes[task]
        best_us = history.latency_us
        if best_us is None:
            return 0.0
        then = history.best_us[-1 - how.window] if len(history.best_us) > how.window else None
        backward = 0.0 if then is None else (best_us - then) / how.window
        room_us = max(0.0, best_us - stake.floor_us)
        forward = -room_us / history.granted
        rate = self._best_rate(task, histories)
        if rate is not None:
            reached_us = how.beta * stake.operations / rate
            forward = min(forward, max(reached_us - best_us, -room_us))
        return stake.weight * (how.alpha * backward + (1.0 - how.alpha) * forward)

    def _best_rate(self, task: int, histories: Sequence[History]) -> float | None:
        """Return the most operations a microsecond among similar tasks, None if it has none."""
        similar = self._similar[task]
        if len(similar) == 1:
            return None
        times = ((self._stakes[k].operations, histories[k].latency_us) for k in similar)
        return max((count / us for count, us in times if us is not None), default=None)


def _open(histories: Sequence[History]) -> list[int]:
    return [n for n, history in enumerate(histories) if history.open]


def make(name: str, stakes: Sequence[Stake], settings: Mapping[str, Any]) -> Scheduler:
    """Return the scheduler of that name, one of NAMES; ``settings`` not given are at defaults.

    Raises BadScheduler on another name, and on a setting that is unknown or out of bounds.
    """
    if name not in NAMES:
        raise BadScheduler(f"the scheduler is one of {', '.join(NAMES)}, not {ascii(name)[:60]}")
    known = {f.name: f.default for f in fields(GradientSettings)} if name == NAMES[0] else {}
    for key, value in settings.items():
        if key not in known:
            raise BadScheduler(f"{name} has no setting {ascii(key)[:60]}")
        if not _fits(key, value, whole=isinstance(known[key], int)):
            raise BadScheduler(f"{name}: {key} is a bounded number, not {ascii(value)[:60]}")
    if name == "gradient":
        return Gradient(stakes, GradientSettings(**settings))
    return RoundRobin() if name == "round-robin" else Sequential()


def _fits(name: str, value: Any, *, whole: bool) -> bool:
    if whole:
        return type(value) is int and (1 if name in ("window", "warm_up") else 0) <= value < 1 << 32
    most = math.inf if name == "beta" else 1.0
    return type(value) in (int, float) and 0 <= value <= most and math.isfinite(value)
