"""Torch's layers with a ``forward`` that goes through ``autosched.ops``.

A layer keeps its parameters, buffers, hooks and names: only its class changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from autosched import ops

#: Attributes of a layer: its log's handle, and the activation it has taken in, if any.
HANDLE = "autosched_log"
ACTIVATION = "autosched_activation"
#: The handle of layers that no log serves.
NO_LOG = -1


def activation_of(module: nn.Module) -> str | None:
    """Return what operators call an activation module, None where they have none of it."""
    if type(module) is nn.GELU:
        return {"none": "gelu", "tanh": "gelu_tanh"}.get(module.approximate)
    return {nn.ReLU: "relu", nn.SiLU: "silu"}.get(type(module))


def take(module: nn.Module, handle: int) -> bool:
    """Let a layer be served from a log; False where it is none, or has a log already."""
    if type(module) in _SERVED and getattr(module, "padding_mode", "zeros") == "zeros":
        module.__class__ = _SERVED[type(module)]
    elif getattr(module, HANDLE, None) != NO_LOG:
        return False
    module.__dict__[HANDLE] = handle
    return True


def activate(module: nn.Module, activation: str) -> None:
    """Let a layer compute an activation too."""
    take(module, NO_LOG)
    module.__dict__[ACTIVATION] = activation


def give_back(module: nn.Module, *, entirely: bool = False) -> None:
    """Undo ``take``; a layer with an activation keeps that, unless it is undone ``entirely``."""
    if HANDLE not in module.__dict__:
        return
    if ACTIVATION in module.__dict__ and not entirely:
        module.__dict__[HANDLE] = NO_LOG
        return
    module.__class__ = type(module).__mro__[1]
    module.__dict__.pop(HANDLE)
    module.__dict__.pop(ACTIVATION, None)


def served_from(model: nn.Module, handle: int) -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers that have a log's handle, with their names."""
    for name, module in model.named_modules():
        if getattr(module, HANDLE, None) == handle:
            yield name, module


def kind(module: nn.Module) -> str:
    """Return the name of torch's layer."""
    return type(module).__name__.removeprefix("Served")


class ServedLinear(nn.Linear):
    """A linear layer through a log."""

    autosched_log: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return ops.linear(input, self.weight, self.bias, log=self.autosched_log)


class ServedConv1d(nn.Conv1d):
    """A convolution of one dimension through a log."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return _through(ops.conv1d, super().forward, self, input)


class ServedConv2d(nn.Conv2d):
    """A convolution of two dimensions through a log."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return _through(ops.conv2d, super().forward, self, input)


class ServedConv3d(nn.Conv3d):
    """A convolution of three dimensions through a log."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Compute as torch's layer does."""
        return _through(ops.conv3d, super().forward, self, input)


def _through(
    operator: Callable[..., torch.Tensor],
    plain: Callable[[torch.Tensor], torch.Tensor],
    layer: Any,
    x: torch.Tensor,
) -> torch.Tensor:
    """Compute by an operator; what no log serves is left open to whoever compiles the model."""
    activation = getattr(layer, ACTIVATION, None)
    if layer.autosched_log == NO_LOG and torch.compiler.is_compiling():
        made = plain(x)
        return made if activation is None else ops.ACTIVATIONS[activation](made)
    how = (layer.stride, layer.padding, layer.dilation, layer.groups, activation)
    return operator(x, layer.weight, layer.bias, *how, log=layer.autosched_log)


_SERVED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: ServedLinear,
    nn.Conv1d: ServedConv1d,
    nn.Conv2d: ServedConv2d,
    nn.Conv3d: ServedConv3d,
}
