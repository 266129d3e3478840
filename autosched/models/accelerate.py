"""A model's layers served from a log. Knows how layers compute, and nothing of kernels.

A layer keeps its parameters, buffers, hooks and names: only its class changes, to one whose
``forward`` goes through ``autosched.ops``. So ``state_dict`` is what it was, and ``restore`` gives
every layer its class back.
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
from autosched.ops.serving import Decision, serving
from autosched.runtime.tuned import Tuned

#: The attribute of a layer that holds its log's handle.
_HANDLE = "autosched_log"


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
        self, model: nn.Module, handle: int, layers: Sequence[Layer], replaced: Sequence[str]
    ) -> None:
        self._model = model
        self._handle = handle
        self.layers = tuple(layers)
        #: Names of the layers that go through the log.
        self.replaced = tuple(replaced)

    def restore(self) -> None:
        """Give every layer its class back, and forget the log. May be called again."""
        for _, module in _accelerated(self._model, self._handle):
            _give_back(module)
        ops.release(self._handle)

    def __str__(self) -> str:
        served = sum(layer.source not in ("", "torch") for layer in self.layers)
        head = f"{served} of {len(self.layers)} layers by kernels of the log"
        return "\n".join([head, *map(str, self.layers)])


def accelerate(
    model: nn.Module,
    log: Tuned | str | Path,
    example: Sequence[Any] | torch.Tensor | None = None,
) -> Accelerated:
    """Let the linear and convolution layers of ``model`` be served from ``log``, in place.

    With ``example``, the inputs of one call, the model is run once without gradients, and layers
    that the log does not serve for them are left alone; the result lists each layer and why.
    Without, every such layer looks when it is called, and is torch's where the log holds nothing.
    Only workloads that the log holds, or comes near, are taken from it, and those not where torch
    was measured faster. Layers with circular, reflecting or replicating padding are left alone, as
    are subclasses of torch's layers. Raises NoLog where there is no such file.
    """
    handle = ops.register(log)
    replaced = [name for name, module in model.named_modules() if _take(module, handle)]
    if example is None:
        layers = [
            Layer(name, _kind(model.get_submodule(name)), "", "", "looked up when it is called")
            for name in replaced
        ]
        return Accelerated(model, handle, layers, replaced)
    layers = list(_tried(model, handle, example))
    for layer in layers:
        if layer.source in ("", "torch"):
            _give_back(model.get_submodule(layer.name))
            replaced.remove(layer.name)
    return Accelerated(model, handle, layers, replaced)


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

    for name, module in _accelerated(model, handle):
        hooks.append(module.register_forward_pre_hook(forget))
        hooks.append(module.register_forward_hook(partial(keep, name)))
    inputs = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    for name, module in _accelerated(model, handle):
        yield _layer(name, _kind(module), found.get(name), ran=name in found)


def _layer(name: str, kind: str, decision: Decision | None, *, ran: bool) -> Layer:
    if not ran:
        return Layer(name, kind, "", "", "the example does not come here")
    if decision is None or decision.served is None:
        return Layer(name, kind, "", "torch", "no kernel takes these tensors as they lie")
    served = decision.served
    source = served.source if decision.by_kernel else "torch"
    return Layer(name, kind, served.workload.label, source, served.reason)


def _accelerated(model: nn.Module, handle: int) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if getattr(module, _HANDLE, None) == handle:
            yield name, module


def _kind(module: nn.Module) -> str:
    return type(module).__name__.removeprefix("Served")


def _take(module: nn.Module, handle: int) -> bool:
    served = _SERVED.get(type(module))
    if served is None or getattr(module, "padding_mode", "zeros") != "zeros":
        return False
    module.__class__ = served
    module.__dict__[_HANDLE] = handle
    return True


def _give_back(module: nn.Module) -> None:
    module.__class__ = type(module).__mro__[1]
    module.__dict__.pop(_HANDLE, None)


class ServedLinear(nn.Linear):
    """A linear layer through a log."""

    autosched_log: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return ops.linear(input, self.weight, self.bias, log=self.autosched_log)


class ServedConv1d(nn.Conv1d):
    """A convolution of one dimension through a log."""

    autosched_log: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return ops.conv1d(input, self.weight, self.bias, *_how(self), log=self.autosched_log)


class ServedConv2d(nn.Conv2d):
    """A convolution of two dimensions through a log."""

    autosched_log: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return ops.conv2d(input, self.weight, self.bias, *_how(self), log=self.autosched_log)


class ServedConv3d(nn.Conv3d):
    """A convolution of three dimensions through a log."""

    autosched_log: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return ops.conv3d(input, self.weight, self.bias, *_how(self), log=self.autosched_log)


def _how(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> tuple[Any, ...]:
    return layer.stride, layer.padding, layer.dilation, layer.groups


_SERVED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: ServedLinear,
    nn.Conv1d: ServedConv1d,
    nn.Conv2d: ServedConv2d,
    nn.Conv3d: ServedConv3d,
}
