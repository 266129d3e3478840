"""Which workloads a model is made of: runs it once and writes down its products and convolutions.

What is seen are torch's own operators, below its layers and functions: mm, addmm, bmm, baddbmm and
convolution, wherever they come from, and those of ``autosched.ops`` with their activations.
Attention that torch computes in one kernel is left to it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autosched.models.fold import fold as fold_layers
from autosched.ops import described
from autosched.ops.described import Described
from search_space.workload import Workload

_aten = torch.ops.aten


class NotRunnable(ValueError):
    """A model that cannot be run: the message names the file, the function and what is off."""


@dataclass
class Found:
    """A workload that a model runs: how often, and how long torch takes for all of it.

    ``seconds`` is GPU time between events, or of the host where the model runs on the CPU.
    """

    described: Described
    count: int = 0
    seconds: float = 0.0


@dataclass
class Extracted:
    """What one run of a model was made of, and how much of its time that was."""

    found: tuple[Found, ...]
    #: Products and convolutions that no spec states, by what they were.
    left: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    on_gpu: bool = False
    #: Seconds by torch's operators, views apart.
    operators: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the run's time that the workloads took."""
        return sum(f.seconds for f in self.found) / self.seconds if self.seconds else 0.0


#: Cycles that the GPU waits before an operator that is timed, about 0.2 ms: the host then queues
#: all of the operator before its first kernel begins, and its own time is in no measurement.
_WAIT_CYCLES = 400_000


class _Watch(TorchDispatchMode):
    """Describes products and convolutions as they run, and times every operator."""

    def __init__(self, timed: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: dict[str, Found] = {}
        self.left: dict[str, int] = {}
        self.seconds = 0.0
        self.operators: dict[str, float] = {}
        self._timed = timed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        del types
        call = None
        reader = _READERS.get(func)
        if reader is not None:
            call = reader(*args, **(kwargs or {}))
            if call is None:
                self.left[str(func)] = self.left.get(str(func), 0) + 1
        result, seconds = self._run(partial(func, *args, **(kwargs or {})), func)
        self.seconds += seconds
        if seconds:
            name = str(func.overloadpacket)
            self.operators[name] = self.operators.get(name, 0.0) + seconds
        if call is not None:
            kept = self.found.setdefault(call.workload.key, Found(call))
            kept.count += 1
            kept.seconds += seconds
        return result

    def _run(self, run: Callable[[], Any], func: Any) -> tuple[Any, float]:
        """Return what an operator gives and the seconds that it takes; a view takes none."""
        if _is_view(func):
            return run(), 0.0
        if not self._timed:
            begun = time.perf_counter()
            return run(), time.perf_counter() - begun
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_WAIT_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        result = run()
        end.record()
        end.synchronize()
        return result, start.elapsed_time(end) * 1e-3


def _is_view(func: Any) -> bool:
    """Say whether all that an operator returns lies in memory of its inputs, which it leaves."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info and not r.alias_info.is_write for r in returns)


def _mm(a: torch.Tensor, b: torch.Tensor) -> Described | None:
    return described.product(a, b)


def _addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> Described | None:
    if bias.dim() != 1 or (beta, alpha) != (1, 1):
        return None
    return described.product(a, b, bias)


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Described | None:
    del output_padding
    if transposed:
        return None
    return described.convolution(x, weight, bias, stride, padding, dilation, groups)


def _none(*_: Any, **__: Any) -> None:
    return None


def _own_product(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str | None, log: int
) -> Described | None:
    del log
    return described.product(a, b, bias, activation)


def _own_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    log: int,
) -> Described | None:
    del log
    if weight.dim() != 2 or x.dim() < 2 or not x.is_contiguous():
        return None
    rows = x.view(-1, x.shape[-1])
    return described.product(rows, weight.t(), bias, activation)


def _own_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    stride: Sequence[int],
    padding: Sequence[int],
    padding_name: str,
    dilation: Sequence[int],
    groups: int,
    log: int,
) -> Described | None:
    del log
    pads = padding_name or padding
    return described.convolution(x, weight, bias, stride, pads, dilation, groups, activation)


_own = torch.ops.autosched
_READERS: dict[Any, Callable[..., Described | None]] = {
    _own.matmul.default: _own_product,
    _own.linear.default: _own_linear,
    _own.conv.default: _own_convolution,
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _addmm,
    _aten.baddbmm.default: _none,
    _aten.convolution.default: _convolution,
}


def extract(call: Callable[[], Any], *, warm_up: bool = True) -> Extracted:
    """Run ``call`` without gradients and return what it is made of, the longest first.

    It runs once before, so that what is only done once is not counted.
    """
    on_gpu = torch.cuda.is_available()
    with torch.no_grad():
        if warm_up:
            call()
        with _Watch(timed=on_gpu) as watch:
            call()
    found = sorted(watch.found.values(), key=lambda f: (-f.seconds, f.described.workload.key))
    return Extracted(tuple(found), watch.left, watch.seconds, on_gpu, watch.operators)


def load(place: str, *, fold: bool = False) -> Callable[[], Any]:
    """Return what ``FILE.py:FUNCTION`` runs. The file is run: it is the user's own code.

    The function takes nothing. It runs the model itself; or it returns the model and its inputs,
    ``(model, *inputs)``, and is called once. With ``fold`` it must return them, and the model runs
    with norms and activations folded into convolutions. Raises NotRunnable, NotFoldable.
    """
    if fold:
        folded, given = model_of(place)
        fold_layers(folded)
        return lambda: folded(*given)
    function, made = _made(place)
    if isinstance(made, tuple) and made and callable(made[0]):
        model, *inputs = made
        return lambda: model(*inputs)
    run: Callable[[], Any] = function
    return run


def model_of(place: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Return the model and the inputs that ``FILE.py:FUNCTION`` returns. Raises NotRunnable."""
    _, made = _made(place)
    if not isinstance(made, tuple) or not made or not isinstance(made[0], torch.nn.Module):
        raise NotRunnable(f"{place}: it returns no model and its inputs, (model, *inputs)")
    return made[0], made[1:]


def _made(place: str) -> tuple[Callable[[], Any], Any]:
    """Return a file's function and what it returns; a model among that is set to evaluate."""
    file, _, name = place.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise NotRunnable(f"{place}: name a function of a file, as in model.py:function")
    path = Path(file)
    if not path.is_file():
        raise NotRunnable(f"{file}: there is no such file")
    function = getattr(_module(path), name, None)
    if not callable(function):
        raise NotRunnable(f"{file}: it defines no function {name!r}")
    try:
        made = function()
    except Exception as error:
        raise NotRunnable(f"{place}: it raised {type(error).__name__}: {error}") from error
    if isinstance(made, tuple) and made and isinstance(made[0], torch.nn.Module):
        made[0].eval()
    return function, made


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"autosched_extracted_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise NotRunnable(f"{path}: it cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise NotRunnable(f"{path}: it raised {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def to_yaml(extracted: Extracted, name: str) -> str:
    """Return a suite of the workloads, each with its count as its weight, for ``tune``."""
    clock = "GPU time" if extracted.on_gpu else "time on the CPU, which says little of a GPU's"
    lines = [
        f"# The products and convolutions of {name}, the longest first; weights are how often each",
        f"# runs. Shares are of all operators' {clock}: these make up {extracted.share:.0%}.",
        *(f"# left out: {count} x {what}" for what, count in sorted(extracted.left.items())),
        "suite:",
        f"  name: {json.dumps(_identifier(name))}",
        "  workloads:",
    ]
    for number, found in enumerate(extracted.found):
        share = found.seconds / extracted.seconds if extracted.seconds else 0.0
        lines.append(f"    # {found.described.workload.label}: {share:.1%}")
        row = {"id": f"t{number}", **found.described.fields, "weight": found.count}
        words = ", ".join(f"{key}: {json.dumps(value)}" for key, value in row.items())
        lines.append(f"    - {{{words}}}")
    return "\n".join(lines) + "\n"


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-") or "tasks"


def workloads(extracted: Extracted) -> Iterable[Workload]:
    """Return the workloads alone."""
    return (found.described.workload for found in extracted.found)
