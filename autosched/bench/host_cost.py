"""What one call costs the host, ways to call side by side: python -m autosched.bench.host_cost

One process, one product, calls queued without waiting for the device and ways taking turns: torch,
what the run time serves, and Triton's own launch of the same kernel. Knows no search.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch

from autosched.bench.device import machine, name_of_device, versions
from autosched.runtime.loading import load
from autosched.runtime.tuned import Tuned
from autosched.te.operators import matmul
from measure.compiler import function
from measure.launch import Launcher, tritons_argument
from search_space.program import Program
from search_space.workload import Workload

#: Calls that are queued before the device is waited for: fewer than its queue holds.
CALLS = 100
ROUNDS = 41
#: The product that is called: small, so that the device never keeps the host waiting.
M, N, K = 512, 512, 512

Ways = Mapping[str, Callable[[], Any]]


def host_us(
    ways: Ways, wait: Callable[[], None], rounds: int = ROUNDS, calls: int = CALLS
) -> dict[str, float]:
    """Return the median over rounds of what a call costs by each way, microseconds.

    Ways take turns, in an order of chance each round; ``wait`` is called between, untimed.
    """
    rng = random.Random(0)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        names = sorted(ways)
        rng.shuffle(names)
        for name in names:
            call = ways[name]
            wait()
            begun = time.perf_counter()
            for _ in range(calls):
                call()
            found[name].append((time.perf_counter() - begun) * 1e6 / calls)
    wait()
    return {name: median(found[name]) for name in ways}


def ways_of(tuned: Tuned, workload: Workload, device: torch.device) -> dict[str, Callable[[], Any]]:
    """Return the ways to call one product of two float16 matrices, by name."""
    m, n = workload.output.shape
    k = workload.inputs[0].shape[1]
    a = torch.randn(m, k, device=device, dtype=torch.float16)
    b = torch.randn(k, n, device=device, dtype=torch.float16)
    out = torch.empty(m, n, device=device, dtype=torch.float16)
    prepared = tuned.prepare(workload, device)
    ways: dict[str, Callable[[], Any]] = {
        "torch.mm(a, b, out=c)": lambda: torch.mm(a, b, out=out),
        "torch.mm(a, b)": lambda: torch.mm(a, b),
        "tuned.matmul(a, b, out=c)": lambda: tuned.matmul(a, b, out=out),
        "tuned.matmul(a, b)": lambda: tuned.matmul(a, b),
        "prepared(a, b, out=c)": lambda: prepared(a, b, out=out),
        "prepared(a, b)": lambda: prepared(a, b),
    }
    program = tuned.lookup(workload).program
    if program is not None:
        call = Launcher(program, device).prepare([a, b], out)
        ways["bound to its tensors"] = call.repeat
        if len(program.kernels) == 1:
            tensors = dict(zip("ABC", (a, b, out), strict=True))
            ways["Triton's launch"] = _tritons(program, tensors)
    return ways


def _tritons(program: Program, tensors: Mapping[str, torch.Tensor]) -> Callable[[], Any]:
    """Return a call of the same kernel through Triton's own front end, descriptors made anew as
    its users make them."""
    [kernel] = program.kernels
    launched = function(kernel)[kernel.grid]

    def call() -> Any:
        arguments = [tritons_argument(given, tensors[given.buffer]) for given in kernel.arguments]
        return launched(*arguments, num_warps=kernel.warps, num_stages=kernel.stages)

    return call


#: Loads a log, then times the first call of the product, or making it ready and the call after.
_FIRST = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import torch, autosched
from autosched.te.operators import matmul
m, n, k = map(int, sys.argv[2:5])
a = torch.randn(m, k, device="cuda").half()
b = torch.randn(k, n, device="cuda").half()
torch.mm(a, b)
torch.cuda.synchronize()
tuned = autosched.load(sys.argv[1])
found = {}
if sys.argv[5] == "warm":
    begun = time.perf_counter()
    tuned.warm([matmul(m, n, k, dtype="float16")])
    found["warm_s"] = time.perf_counter() - begun
begun = time.perf_counter()
tuned.matmul(a, b)
torch.cuda.synchronize()
found["call_s"] = time.perf_counter() - begun
print(json.dumps(found))
"""


def first_calls(log: Path) -> dict[str, float]:
    """Return the seconds of the first call in three new processes: with an empty cache of Triton's,
    with what that left on disk, and after ``warm``, whose own time is ``warming``."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": cache}

        def run(how: str) -> dict[str, float]:
            arguments = [str(log), *map(str, (M, N, K)), how]
            done = subprocess.run(
                [sys.executable, "-c", _FIRST, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            return found

        cold, cached, warm = run("cold"), run("cached"), run("warm")
    return {
        "empty cache": cold["call_s"],
        "cache on disk": cached["call_s"],
        "after warm": warm["call_s"],
        "warming": warm["warm_s"],
    }


def table(data: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    base = data["host_us"].get("torch.mm(a, b, out=c)")
    lines = [f"{data['workload']}, served by {data['source']} ({data['sketch']})", ""]
    lines += ["| way | host us a call | of torch.mm(out=) |", "|---|---:|---:|"]
    for name, cost in data["host_us"].items():
        share = f"{cost / base:.2f}" if base else "-"
        lines.append(f"| {name} | {cost:.2f} | {share} |")
    if first := data.get("first_call_s"):
        lines += ["", "| first call | s |", "|---|---:|"]
        lines += [f"| {name} | {seconds:.3f} |" for name, seconds in first.items()]
    return "\n".join(lines)


@click.command()
@click.option("--log", type=click.Path(path_type=Path), help="Serve from this log.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=ROUNDS, show_default=True)
def main(log: Path | None, out: Path, rounds: int) -> None:
    """Time calls of a 512 x 512 x 512 product on the host. Needs a GPU."""
    if not torch.cuda.is_available():
        raise click.ClickException("needs a GPU, and torch sees none")
    device = torch.device("cuda", torch.cuda.current_device())
    path = out / "nothing-tuned.jsonl" if log is None else log
    out.mkdir(parents=True, exist_ok=True)
    path.touch()
    workload = matmul(M, N, K, dtype="float16")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a default serves is in the table
        tuned = load(path)
        ways = ways_of(tuned, workload, device)
        for call in ways.values():
            call()
        costs = host_us(ways, torch.cuda.synchronize, rounds)
    served = tuned.lookup(workload)
    gpu = name_of_device("cuda")
    data = {
        "machine": machine(gpu or ""),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "autosched.bench.host_cost", *sys.argv[1:]]),
        "workload": workload.label,
        "source": served.source,
        "sketch": served.schedule.sketch if served.schedule else None,
        "calls": CALLS,
        "rounds": rounds,
        "host_us": {name: float(f"{cost:.4g}") for name, cost in costs.items()},
        "first_call_s": {n: float(f"{s:.4g}") for n, s in first_calls(path).items()},
    }
    (out / "host-cost.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    click.echo(table(data))


if __name__ == "__main__":
    main()
