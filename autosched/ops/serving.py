"""Which log serves an operator, and whether it does: logs by handle, decisions by kind of call.

Operators of torch take no Python objects, so a log is a number to them. A kernel serves where the
log holds the very workload; whatever else it is torch's, so that nothing gets slower than it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from autosched.ops.described import Described
from autosched.runtime.loading import load
from autosched.runtime.plan import Plan
from autosched.runtime.served import Served
from autosched.runtime.tuned import Tuned

#: The handle that stands for no log, and for the one that ``use`` named where there is one.
DEFAULT = 0
#: Kinds of calls that are remembered for a log; beyond, all are forgotten.
MOST_KINDS = 4096
#: What is better than torch's own.
BETTER = ("tuned", "related")


@dataclass
class Decision:
    """What computes calls of one kind: the description that a kernel serves, or torch."""

    described: Described | None
    #: What a look-up said; None of calls that no spec states.
    served: Served | None
    #: The short way, once there is one: a plan, and what makes a result in torch's layout.
    plan: Plan | None = None
    empty: Callable[[], torch.Tensor] | None = None

    @property
    def by_kernel(self) -> bool:
        """Whether a kernel of the log serves."""
        return self.described is not None


@dataclass
class Serving:
    """A log in use, and what was decided of the calls it saw."""

    tuned: Tuned
    decisions: dict[Hashable, Decision] = field(default_factory=dict)
    #: What was decided on last, by any thread: for whoever runs a model to see what serves it.
    last: Decision | None = None

    def decide(
        self, kind: Hashable, describe: Callable[..., Described | None], *call: Any
    ) -> Decision:
        """Return what serves calls of a kind, found out at the first: ``describe(*call)``."""
        decision = self.decisions.get(kind)
        if decision is None:
            if len(self.decisions) >= MOST_KINDS:
                self.decisions.clear()
            decision = self.decisions[kind] = self._decided(describe(*call))
        self.last = decision
        return decision

    def _decided(self, described: Described | None) -> Decision:
        if described is None:
            return Decision(None, None)
        served = self.tuned.lookup(described.workload)
        return Decision(described if served.source in BETTER else None, served)

    def run(self, decision: Decision, *tensors: torch.Tensor) -> torch.Tensor:
        """Compute a call by the kernel that was decided on.

        A kernel that needs addresses alone takes tensors as torch has them, and leaves its result
        in a tensor as torch would have it: no views are made.
        """
        if decision.plan is not None and decision.empty is not None:
            made = decision.plan.run(tensors, decision.empty())
            if made is not None:
                return made
        described = decision.described
        assert described is not None  # noqa: S101 (asked for only where a kernel serves)
        output = self.tuned.compute(described.workload, *described.stored(*tensors))
        result = described.restored(output)
        plan = self.tuned.plan(described.workload)
        if plan is not None and plan.by_address:
            decision.empty = partial(
                torch.empty_strided,
                result.shape,
                result.stride(),
                dtype=result.dtype,
                device=result.device,
            )
            decision.plan = plan
        return result


_servings: dict[int, Serving] = {}
_lock = threading.Lock()


def register(log: Tuned | str | Path) -> int:
    """Return a handle of a log, which operators take. It is kept until ``release``."""
    tuned = log if isinstance(log, Tuned) else load(log, on_miss="serve")
    with _lock:
        handle = max(_servings, default=DEFAULT) + 1
        _servings[handle] = Serving(tuned)
    return handle


def release(handle: int) -> None:
    """Forget a handle: calls that still have it are torch's."""
    with _lock:
        _servings.pop(handle, None)


def use(log: Tuned | str | Path | None) -> None:
    """Let operators that are given no log serve from this one; None: from no log."""
    with _lock:
        if log is None:
            _servings.pop(DEFAULT, None)
            return
    tuned = log if isinstance(log, Tuned) else load(log, on_miss="serve")
    with _lock:
        _servings[DEFAULT] = Serving(tuned)


def serving(handle: int) -> Serving | None:
    """Return the log of a handle, None where there is none."""
    return _servings.get(handle)
