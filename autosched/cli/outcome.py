"""What a tuning run found, as lines for people and as plain data. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autosched.cli import wording
from autosched.machine import Machine
from autosched.spec import Task
from autosched.tune.result import Best, TuningResult
from measure.measurement import Timing


def lines(result: TuningResult, best: Best, log: Path) -> Iterator[str]:
    """Yield the report of a run that found something, the line that loads it last."""
    schedule = best.trial.candidate.schedule
    yield f"{result.workload.label}, for {result.target}"
    yield f"  best    {_time(result, best)}"
    mark = wording.constant(result.workload.constants)
    yield f"          {schedule.sketch}, trial {best.trial.number} of {len(result.trials)}{mark}"
    yield f"  ratio   {_ratio(result, best)}"
    yield f"  ties    {_ties(best)}"
    if result.recorded:
        yield f"  resumed after {result.recorded} trials of the log"
    yield f"  failed  {sum(result.failures.values())}: {census(result)}"
    yield (
        f"  rate    {result.trials_per_s:.1f} candidates/s, "
        f"{wording.duration(result.elapsed_s)} in all; stopped: {result.stopped}"
    )
    yield "schedule"
    yield from (f"  {line}" for line in wording.schedule_lines(schedule))
    if result.device.kind == "replay":
        yield f"times were recorded on {result.device.gpu_name}, none was taken now; load it by"
    elif best.predicted:
        yield "predicted times are logged, and never served; tune on a GPU to serve. Load it by"
    else:
        yield "load it by"
    yield f'  import autosched; tuned = autosched.load("{log}")'


def census(result: TuningResult) -> str:
    """Write the failures of a run by kind."""
    return wording.census(result.failures)


def _time(result: TuningResult, best: Best) -> str:
    timing = best.timing
    rate = result.workload.operations / timing.latency_us * 1e-6
    text = wording.interval(timing.latency_us, timing.low_us, timing.high_us, "us")
    if best.predicted:
        text = f"{timing.latency_us:.4g} us, predicted by a model, not measured"
    return f"{text}; {rate:.4g} TFLOP/s"


def _ratio(result: TuningResult, best: Best) -> str:
    ratio = best.ratio_to_library
    library = result.comparison.library if result.comparison else None
    if ratio is None or not isinstance(library, Timing):
        return "the library did not run"
    text = wording.interval(ratio.median, ratio.low, ratio.high)
    return f"{text} of the library's speed ({library.latency_us:.4g} us); above 1 is faster"


def _ties(best: Best) -> str:
    if best.predicted:
        return "not told: predicted times have no noise"
    if not best.ties:
        return "none: it is faster than the others beyond noise"
    names = ", ".join(str(trial.number) for trial in best.ties)
    return f"it cannot be told apart from trial {names}"


def data(task: Task, machine: Machine, result: TuningResult, log: Path) -> dict[str, Any]:
    """Return the report as plain data; ``best`` is None where nothing was found."""
    return {
        "id": task.id,
        "label": result.workload.label,
        "key": result.workload.key,
        "target": result.target,
        "device": "replay" if result.device.kind == "replay" else machine.device,
        "trials": len(result.trials),
        "recorded": result.recorded,
        "failures": dict(result.failures),
        "trials_per_s": result.trials_per_s,
        "elapsed_s": result.elapsed_s,
        "stopped": result.stopped,
        "log": str(log),
        "best": None if result.best is None else _best(result, result.best),
    }


def absent(task: Task, machine: Machine, stopped: str | None, log: Path) -> dict[str, Any]:
    """Return the same of a task that was never started, as ``stopped`` came first."""
    return {
        "id": task.id,
        "label": task.workload.label,
        "key": task.workload.key,
        "target": machine.target.name,
        "device": machine.device,
        "trials": 0,
        "recorded": 0,
        "failures": {},
        "trials_per_s": 0.0,
        "elapsed_s": 0.0,
        "stopped": stopped,
        "log": str(log),
        "best": None,
    }


def _best(result: TuningResult, best: Best) -> dict[str, Any]:
    ratio = best.ratio_to_library
    library = result.comparison.library if result.comparison else None
    return {
        "trial": best.trial.number,
        "predicted": best.predicted,
        "latency_us": best.timing.latency_us,
        "low_us": best.timing.low_us,
        "high_us": best.timing.high_us,
        "library_us": library.latency_us if isinstance(library, Timing) else None,
        "ratio": [ratio.median, ratio.low, ratio.high] if ratio else None,
        "ties": [trial.number for trial in best.ties],
        "program": best.trial.program.fingerprint if best.trial.program else None,
        "schedule": best.trial.candidate.schedule.to_data(),
    }
