"""What a benchmark runs on: a GPU, or a model of one; and how a log serves there. Tunes nothing."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata
from pathlib import Path

import torch

import autosched
from autosched.bench.contest import LIBRARIES
from autosched.bench.prediction import Predictor
from autosched.bench.referee import GpuReferee
from autosched.bench.run import Bench, Entry, Quick, Tuning
from autosched.runtime.catalog import Catalog, load_catalog
from autosched.runtime.device import Setting, setting
from autosched.runtime.served import Served
from autosched.runtime.tuned import Tuned
from measure.log import read
from measure.nvml import driver_version
from measure.record import AnyRecord, ResumeRecord, RunRecord, TrialRecord
from measure.service import NoDevice
from search_space.target import Target
from search_space.workload import Workload


@contextmanager
def open_bench(
    suite: str,
    *,
    target: Target,
    device: str = "cuda",
    log: Path | None = None,
    against: tuple[str, ...] = ("torch",),
    tune: Callable[[Entry], Tuning] | None = None,
    quick: Callable[[Entry, Path], Tuning] | None = None,
    quick_logs: Path = Path("quick"),
    date: str,
    command: str,
    rounds: int = 50,
    seed: int = 0,
) -> Iterator[Bench]:
    """Yield a benchmark on ``device``: "cuda", "cuda:N" or "model", where times are predicted.

    ``tune`` searches one workload and appends to ``log``. Without a log everything is served by
    defaults. ``quick`` searches one at quick effort and appends to the log it is handed, a new one
    for each workload in the folder ``quick_logs``. Raises NoDevice, and ValueError on an unknown
    library.
    """
    for name in against:
        if name not in LIBRARIES:
            raise ValueError(f"--against {name!r} is not known; known: {', '.join(LIBRARIES)}")
    gpu = name_of_device(device)
    here = setting(target, lambda: gpu or target.device_names[0])
    predictor = Predictor(lambda workload: serve(log, here, workload), target)

    def run_quick(entry: Entry) -> Quick:
        assert quick is not None  # noqa: S101 (only handed over where it is there)
        own = fresh_log(quick_logs, entry.workload)
        begun = time.monotonic()
        tuning = quick(entry, own)
        seconds = time.monotonic() - begun
        served = predictor.remember(serve(own, here, entry.workload))
        return Quick(served, tuning.trials, seconds)

    index = "cuda:0" if device == "cuda" else device
    with GpuReferee(index) as referee:
        if gpu:
            referee.start()
        yield Bench(
            suite=suite,
            target=target,
            against=against,
            serve=predictor.serve,
            referee=referee if gpu else predictor.referee,
            machine=machine(gpu or f"none ({target.name} predicted)"),
            versions=versions(),
            date=date,
            command=command,
            tune=tune,
            quick=run_quick if quick else None,
            tuned_before=lambda workload: tuned_before(log, workload),
            predicted=gpu is None,
            rounds=rounds,
            seed=seed,
        )


def name_of_device(device: str) -> str | None:
    """Return the name of a GPU, None for "model"; raises NoDevice where there is no such GPU."""
    if device == "model":
        return None
    if device != "cuda" and not device.startswith("cuda:"):
        raise NoDevice(f"device {device!r} is not known; known: cuda, cuda:N, model")
    if not torch.cuda.is_available():
        raise NoDevice(f"device {device}: torch finds no GPU here; --device model predicts times")
    try:
        return str(torch.cuda.get_device_name(device))
    except (RuntimeError, AssertionError) as error:
        count = torch.cuda.device_count()
        raise NoDevice(f"device {device}: there are {count}, counted from 0") from error


def serve(log: Path | None, here: Setting, workload: Workload) -> Served:
    """Return what a log, read anew, serves for ``workload``."""
    exists = log is not None and log.exists()
    catalog = load_catalog(log, here.place) if log is not None and exists else Catalog({})
    tuned = Tuned(catalog, here, on_miss="serve", prefer="tuned", source=str(log))
    return tuned.lookup(workload)


def fresh_log(folder: Path, workload: Workload) -> Path:
    """Return the path of a workload's log in ``folder``, which exists; there is no such log."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{workload.key}.jsonl"
    path.unlink(missing_ok=True)
    return path


def tuned_before(log: Path | None, workload: Workload) -> Tuning | None:
    """Return what the last run of ``workload`` in the log took, from the times of its lines."""
    if log is None or not log.exists():
        return None
    records = read(log).records
    trials = [r for r in records if isinstance(r, TrialRecord) and r.workload.key == workload.key]
    if not trials:
        return None
    last = trials[-1].run
    own = [r for r in records if r.run == last]
    attempts = sum(isinstance(r, TrialRecord) for r in own)
    seconds = _seconds(own)
    return Tuning(attempts, seconds, attempts / seconds if seconds > 0 else None)


def _seconds(lines: Sequence[AnyRecord]) -> float:
    """Return the time from start to last trial, the pauses before a run went on left out."""
    total, begun, ended = 0.0, lines[0].provenance.time, lines[0].provenance.time
    for line in lines:
        if isinstance(line, RunRecord | ResumeRecord):
            total += _between(begun, ended)
            begun = ended = line.provenance.time
        elif isinstance(line, TrialRecord):
            ended = line.provenance.time
    return total + _between(begun, ended)


def _between(begun: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()


def machine(gpu: str) -> dict[str, str | int]:
    """Return what the results say of the machine."""
    cores = len(os.sched_getaffinity(0))
    return {"gpu": gpu, "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


def versions() -> dict[str, str]:
    """Return the versions that times depend on; those not to be had are left out."""
    found = {"autosched": autosched.__version__, "python": platform.python_version()}
    for package in ("torch", "triton"):
        found[package] = metadata.version(package)
    driver = driver_version()
    return found | ({"driver": driver} if driver else {})
