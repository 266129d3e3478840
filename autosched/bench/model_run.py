"""Models with and without a log: python -m autosched.bench.model_run FILE.py:FUNCTION --log LOG

Runs a model as it is, through ``accelerate``, each also captured in a CUDA graph, and as torch
compiles it, in turns, and compares results. With a budget, what the model is made of is tuned
first. Without a GPU it runs on the CPU, where torch serves everything. Knows no search: it asks
the command line for one.
"""

from __future__ import annotations

import copy
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch

from autosched.bench.device import machine, name_of_device, versions
from autosched.models.accelerate import Accelerated, accelerate
from autosched.models.extract import Extracted, NotRunnable, extract, model_of
from autosched.models.fold import NotFoldable
from autosched.models.fold import fold as fold_layers
from autosched.runtime.errors import NoLog
from autosched.runtime.loading import load

#: Turns of each way, and runs of the model in a turn.
ROUNDS, RUNS = 15, 3

#: The exit code of ``tune`` where some workloads have nothing.
_PARTLY = 3

Run = Callable[[], torch.Tensor]


class NotTuned(RuntimeError):
    """A command that was to extract or tune a model failed; the message says which."""


def in_turns(ways: Mapping[str, Run], rounds: int = ROUNDS, runs: int = RUNS) -> dict[str, float]:
    """Return by way the median over rounds of what one run takes, milliseconds: of GPU time between
    events, idle gaps included, where there is a GPU; else of the clock's."""
    rng = random.Random(0)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        names = sorted(ways)
        rng.shuffle(names)
        for name in names:
            found[name].append(_timed_ms(ways[name], runs))
    return {name: median(times) for name, times in found.items()}


def _timed_ms(run: Run, runs: int) -> float:
    if not torch.cuda.is_available():
        begun = time.perf_counter()
        for _ in range(runs):
            run()
        return (time.perf_counter() - begun) * 1e3 / runs
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    for _ in range(runs):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / runs


def graphed(run: Run) -> Run:
    """Return a CUDA graph captured of ``run``; its result is always the same tensor."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


def tune(place: str, log: Path, budget_s: float, *, fold: bool) -> float:
    """Tune what a model is made of into ``log``; return the seconds that all of it took.

    Runs the commands ``extract`` and ``tune`` in processes of their own, so that all of the GPU's
    memory is free again. Raises NotTuned where one of them fails; that some workloads found no turn
    within the budget is no failure.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tasks = str(Path(folder) / "tasks.yaml")
        _command("extract", place, "-o", tasks, "-q", *(["--fold"] if fold else []))
        budget = ("--budget-seconds", f"{budget_s:g}")
        _command("tune", tasks, *budget, "-o", str(log), "-q", fine=(0, _PARTLY))
    return time.monotonic() - begun


def _command(*arguments: str, fine: Sequence[int] = (0,)) -> None:
    command = [sys.executable, "-m", "autosched.cli.main", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in fine:
        raise NotTuned(f"{shlex.join(command)} ended with {done.returncode}")


def compare(
    place: str, log: Path, compiled: Sequence[str], rounds: int = ROUNDS, *, fold: bool = False
) -> dict[str, Any]:
    """Return times, errors and layers of a model as plain data. Raises NotRunnable, NotFoldable.

    With ``fold`` the accelerated model has norms and activations folded, and torch has a model
    with norms folded too.
    """
    model, inputs = model_of(place)
    with torch.no_grad():
        extracted = extract(lambda: model(*inputs))
        served = copy.deepcopy(model)
        done = accelerate(served, load(log, on_miss="serve"), inputs, fold=fold)
        modules = {"": model}
        if fold:
            modules[", folded"] = copy.deepcopy(model)
            fold_layers(modules[", folded"], activations=False)
        ways = {f"eager{what}": _calling(module, inputs) for what, module in modules.items()}
        ways["accelerated"] = _calling(served, inputs)
        want = ways["eager"]().clone()
        setup_s: dict[str, float] = {}
        each = {f"torch.compile{what}": module for what, module in modules.items()}
        for mode in compiled:
            for name, module in {**each, "accelerated, compiled": served}.items():
                if module is served and mode != "default":
                    continue
                label = name if mode == "default" else f"{name}, {mode}"
                begun = time.perf_counter()
                made = torch.compile(module, mode=mode)
                made(*inputs)
                setup_s[label] = time.perf_counter() - begun
                ways[label] = _calling(made, inputs)
        if torch.cuda.is_available():
            ways |= {f"{name}, graph": graphed(run) for name, run in list(ways.items())}
        errors = {name: _error(run(), want) for name, run in ways.items()}
        times = in_turns(ways, rounds)
        after = extract(ways["accelerated"])
    return {
        "model": place,
        "inputs": [list(t.shape) for t in inputs if isinstance(t, torch.Tensor)],
        "on_gpu": extracted.on_gpu,
        "ms": times,
        "error": errors,
        "setup_s": setup_s,
        "layers": _counted(done),
        "folded": done.folded,
        "operators": {"eager": _by_operator(extracted), "accelerated": _by_operator(after)},
        "kernels_share": extracted.share,
        "workloads": [
            {
                "label": found.described.workload.label,
                "count": found.count,
                "share": found.seconds / extracted.seconds if extracted.seconds else None,
            }
            for found in extracted.found
        ],
        "served": [str(layer) for layer in done.layers],
    }


def _calling(module: Callable[..., torch.Tensor], inputs: Sequence[Any]) -> Run:
    return lambda: module(*inputs)


def _error(made: torch.Tensor, want: torch.Tensor) -> float:
    """Return the largest difference over the largest value."""
    far = (made.float() - want.float()).abs().max()
    return float(far / want.float().abs().max().clamp_min(1e-30))


def _by_operator(extracted: Extracted) -> dict[str, float]:
    """Return the milliseconds of each operator by itself, the longest first."""
    longest = sorted(extracted.operators.items(), key=lambda pair: -pair[1])
    return {name: 1e3 * seconds for name, seconds in longest}


def _counted(done: Accelerated) -> dict[str, int]:
    return dict(Counter(layer.source or "not run" for layer in done.layers))


def table(data: Mapping[str, Any]) -> str:
    """Return the comparison as Markdown."""
    times = data["ms"]
    layers = ", ".join(f"{count} {source}" for source, count in data["layers"].items())
    lines = [
        f"{data['model']}, inputs {data['inputs']}; layers: {layers}; products and convolutions "
        f"are {data['kernels_share']:.0%} of the eager run's operators by time",
        "",
        "| way | ms | eager / this | largest error | ready in s |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, ms in times.items():
        setup = data["setup_s"].get(name)
        ready = f"{setup:.1f}" if setup is not None else "-"
        ratio = times["eager"] / ms
        lines.append(f"| {name} | {ms:.3f} | {ratio:.2f} | {data['error'][name]:.1e} | {ready} |")
    clock = "GPU time" if data["on_gpu"] else "the CPU's time"
    lines += ["", f"Operators one by one, {clock}:", ""]
    lines += [f"- {way}: {_longest(times)}" for way, times in data["operators"].items()]
    return "\n".join(lines)


def _longest(times: Mapping[str, float], most: int = 6) -> str:
    whole = sum(times.values()) or 1.0
    shown = [f"{name} {ms:.3f} ms ({ms / whole:.0%})" for name, ms in list(times.items())[:most]]
    rest = sum(list(times.values())[most:])
    return ", ".join([*shown, f"others {rest:.3f} ms ({rest / whole:.0%})"])


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="FILE.py:FUNCTION...")
@click.option("--log", type=click.Path(path_type=Path), required=True)
@click.option(
    "--budget-seconds",
    "budget_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Extract and tune each model first, into --log; final comparisons come on top.",
)
@click.option("--fold", is_flag=True, help="Fold norms and activations into convolutions first.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option(
    "--compiled",
    default="default",
    show_default=True,
    help="Modes of torch.compile, separated by commas; empty for none.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=ROUNDS, show_default=True)
def main(
    places: tuple[str, ...],
    log: Path,
    budget_s: float | None,
    fold: bool,
    out: Path,
    compiled: str,
    rounds: int,
) -> None:
    """Compare models as they are, accelerated from LOG, and as torch compiles them."""
    modes = tuple(filter(None, compiled.split(",")))
    gpu = name_of_device("cuda") if torch.cuda.is_available() else "none"
    found = []
    for place in places:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tuned_s = tune(place, log, budget_s, fold=fold) if budget_s else None
                compared = compare(place, log, modes, rounds, fold=fold)
                found.append({**compared, "tuned_s": tuned_s})
        except (NotRunnable, NotFoldable, NotTuned, NoLog) as error:
            raise click.UsageError(str(error)) from error
        click.echo(table(found[-1]))
    data = {
        "machine": machine(gpu or "none"),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "autosched.bench.model_run", *sys.argv[1:]]),
        "models": found,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "models.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
