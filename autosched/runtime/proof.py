"""Check a program once against the reference before it serves. Knows no log and no schedule.

A tuned program was verified when it was measured. A default was not, nor was any program under a
compiler or a driver that it was not measured with.
"""

from __future__ import annotations

import torch

from measure.launch import Launcher
from measure.verify import Case, edge_case, random_case, worst_error
from search_space.workload import Workload

#: Seed of the data; small integers, on which an index error shows bit for bit, come on top.
SEED = 20


def objection(workload: Workload, launcher: Launcher) -> str | None:
    """Return why the program must not serve, or None where it is right on both inputs.

    The output is filled with NaN beforehand, so that a tile left out shows.
    """
    for make in (random_case, edge_case):
        case = make(workload, SEED, launcher.device)
        error = _error(case, launcher)
        if not error <= 1.0:
            return f"it is wrong on {case.name}: {error:.3g} times the tolerance"
    return None


def _error(case: Case, launcher: Launcher) -> float:
    call = launcher.prepare(case.inputs)
    if call.output.is_floating_point():
        call.output.fill_(torch.nan)
    call.run()
    return float(worst_error(case, call.output))
