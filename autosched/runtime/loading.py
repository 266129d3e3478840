"""From a log's path to what serves from it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from autosched.runtime.background import Tuner
from autosched.runtime.catalog import load_catalog
from autosched.runtime.choice import Prefer
from autosched.runtime.device import current_gpu, setting
from autosched.runtime.explain import Explanation
from autosched.runtime.tuned import OnMiss, Tuned
from autosched.spec import load as load_spec
from search_space.target import Target
from search_space.workload import Workload


def load(
    path: str | Path,
    *,
    target: Target | str | None = None,
    on_miss: OnMiss = "warn",
    prefer: Prefer = "best-of",
    buckets: bool = True,
    tuner: Tuner | None = None,
) -> Tuned:
    """Read a log and return what serves from it.

    ``on_miss`` says what happens where nothing was tuned for a workload: it is served by what comes
    next and nothing is said ("serve"), or that is said once ("warn"), or Miss is raised ("error"),
    or the workload is handed to ``tuner`` in a thread of its own, once, while what comes next
    serves ("tune"): any callable that takes a workload and adds to this log, such as
    ``autosched.background_tuner`` makes. The log is read again when it returns.
    ``prefer`` says whether torch serves where the run that tuned a workload measured it as faster
    ("best-of"), or the kernel all the same ("tuned"). With ``buckets`` an extent that was not
    measured is served by a program that serves all extents up to the end of its bucket, where one
    is likely to be as fast; without, a program is compiled for each extent.

    ``target`` names hardware data; by default those of the GPU at hand (without one: h200, for
    look-ups). Records of another GPU, of another rendering version, predicted ones and ones
    without evidence are counted and never served. Raises NoLog where there is no file, OSError
    where it cannot be read, KeyError on an unknown target; damaged lines are skipped.
    """
    here = setting(target, current_gpu)
    again = partial(load_catalog, Path(path), here.place)
    return Tuned(
        again(),
        here,
        on_miss=on_miss,
        prefer=prefer,
        buckets=buckets,
        tuner=tuner,
        again=again,
        source=str(path),
    )


def explain(
    workload: Workload | str, log: str | Path, *, target: Target | str | None = None
) -> Explanation:
    """Return what ``log`` would serve for a workload, or for a spec that states one, and why.

    A spec is a YAML file of one workload or ``op:key=value,...``. Needs no GPU. Raises SpecError,
    and as ``load`` does.
    """
    if isinstance(workload, str):
        [task] = load_spec(workload)[:1]
        workload = task.workload
    return load(log, target=target, on_miss="serve").explain(workload)
