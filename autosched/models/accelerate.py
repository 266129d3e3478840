"""A model's layers served from a log. Knows nothing of kernels.

Layers change their class alone, so that ``state_dict`` is what it was, and ``restore`` gives every
layer its class back. Only folding, where it is wished, changes parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autosched import ops
from autosched.models.fold import Folded
from autosched.models.fold import fold as fold_layers
from autosched.models.layers import give_back, kind, served_from, take
from autosched.ops.serving import Decision, serving
from autosched.runtime.tuned import Tuned


@dataclass(frozen=True)
class Layer:
    """A layer and what serves it: "tuned", "related", "torch", or "" where it was not run."""

    name: str
    kind: str
    workload: str
    source: str
    reason: str

    def __str__(self) -> str:
        told = self.workload or self.kind
        return f"{self.name or '(the model)'}: {told}: {self.source or 'not run'}; {self.reason}"


class Accelerated:
    """What ``accelerate`` did, and how to undo it."""

    def __init__(
        self,
        model: nn.Module,
        handle: int,
        layers: Sequence[Layer],
        replaced: Sequence[str],
        folded: Folded,
    ) -> None:
        self._model = model
        self._handle = handle
        self._folded = folded
        self.layers = tuple(layers)
        #: For each convolution that something was folded into, the names of that.
        self.folded = dict(folded.taken)
        #: Names of the layers that go through the log.
        self.replaced = tuple(replaced)

    def restore(self) -> None:
        """Give every layer its class back, undo the folding, and forget the log.

        May be called again.
        """
        _release(self._model, self._handle, self._folded)

    def __str__(self) -> str:
        served = sum(layer.source not in ("", "torch") for layer in self.layers)
        head = f"{served} of {len(self.layers)} layers by kernels of the log"
        return "\n".join([head, *map(str, self.layers)])


def accelerate(
    model: nn.Module,
    log: Tuned | str | Path,
    example: Sequence[Any] | torch.Tensor | None = None,
    *,
    fold: bool = False,
) -> Accelerated:
    """Let the linear and convolution layers of ``model`` be served from ``log``, in place.

    With ``example``, the inputs of one call, the model is run once without gradients, and layers
    that the log does not serve for them are left alone; the result lists each layer and why.
    Without, every such layer looks when it is called, and is torch's where the log holds nothing.
    Only workloads that the log holds, or comes near, are taken from it, and those not where torch
    was measured faster. Layers with circular, reflecting or replicating padding are left alone, as
    are subclasses of torch's layers. ``fold`` folds batch norms and activations into convolutions
    first, for a log of what ``extract --fold`` found. Raises NoLog where there is no such file,
    NotFoldable where the model cannot be traced, and what the model raises; it is then as it was.
    """
    handle = ops.register(log)
    folded = Folded()
    try:
        if fold:
            folded = fold_layers(model)
        taken = [(name, module) for name, module in model.named_modules() if take(module, handle)]
        layers = _listed(taken) if example is None else list(_tried(model, handle, example))
    except BaseException:
        _release(model, handle, folded)
        raise
    left = {layer.name for layer in layers if layer.source in ("", "torch")}
    if example is None:
        left = set()
    for name, module in taken:
        if name in left:
            give_back(module)
    replaced = [name for name, _ in taken if name not in left]
    return Accelerated(model, handle, layers, replaced, folded)


def _release(model: nn.Module, handle: int, folded: Folded) -> None:
    for _, module in served_from(model, handle):
        give_back(module)
    folded.restore()
    ops.release(handle)


def _listed(taken: Sequence[tuple[str, nn.Module]]) -> list[Layer]:
    why = "looked up when it is called"
    return [Layer(name, kind(module), "", "", why) for name, module in taken]


def _tried(model: nn.Module, handle: int, example: Sequence[Any] | torch.Tensor) -> Iterator[Layer]:
    """Run the model once; yield each layer with what served it."""
    held = serving(handle)
    assert held is not None  # noqa: S101 (``accelerate`` has just made it)
    found: dict[str, Decision | None] = {}
    hooks = []

    def forget(*_: Any) -> None:
        held.last = None

    def keep(name: str, *_: Any) -> None:
        found[name] = held.last

    for name, module in served_from(model, handle):
        hooks.append(module.register_forward_pre_hook(forget))
        hooks.append(module.register_forward_hook(partial(keep, name)))
    inputs = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    for name, module in served_from(model, handle):
        yield _layer(name, kind(module), found.get(name), ran=name in found)


def _layer(name: str, what: str, decision: Decision | None, *, ran: bool) -> Layer:
    if not ran:
        return Layer(name, what, "", "", "the example does not come here")
    if decision is None or decision.served is None:
        return Layer(name, what, "", "torch", "no kernel takes these tensors as they lie")
    served = decision.served
    source = served.source if decision.by_kernel else "torch"
    return Layer(name, what, served.workload.label, source, served.reason)
