"""Normalisation and activation behind a convolution, folded into it. Knows no logs.

In evaluation a batch norm multiplies and adds by channel, which scaled weights and a bias do as
well; an activation behind is an epilogue of ``autosched.ops``. What follows a convolution is read
off the graph that torch.fx traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from autosched.models import layers

_NORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


class NotFoldable(ValueError):
    """A model whose graph cannot be traced; the message says why."""


@dataclass
class Folded:
    """What ``fold`` did, and how to undo it."""

    #: For each convolution the names of what it took in.
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def restore(self) -> None:
        """Give the model its modules and parameters back. May be called again."""
        while self._undo:
            self._undo.pop()()


def fold(model: nn.Module, *, activations: bool = True) -> Folded:
    """Fold batch norms, and activations that are modules, into the convolutions before them.

    In place: a convolution gets parameters of its own, what it took in becomes ``nn.Identity``;
    names in ``state_dict`` change with that, and gradients go to the new parameters. Only modules
    in evaluation that the model calls once are folded, each the only reader of what is before it;
    without ``activations`` only norms are, and layers stay torch's. Folding is done in float32.
    Raises NotFoldable.
    """
    folded = Folded()
    graph = _traced(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    calls = Counter(id(modules[str(n.target)]) for n in graph.nodes if n.op == "call_module")

    def once(node: fx.Node) -> bool:
        module = modules[str(node.target)]
        hooked = module._forward_hooks or module._forward_pre_hooks
        return calls[id(module)] == 1 and not module.training and not hooked

    for node in list(graph.nodes):
        if node.op != "call_module" or type(modules[str(node.target)]) not in _NORMS:
            continue
        name, conv = str(node.target), modules[str(node.target)]
        if not once(node) or getattr(conv, "padding_mode", "zeros") != "zeros":
            continue
        taken: list[str] = []
        for after in _chain(node, modules):
            module, place = modules[str(after.target)], str(after.target)
            if not once(after):
                break
            if type(module) is _NORMS[type(conv)] and not taken and _is_fixed(module):
                _fold_norm(folded, conv, module)
            elif activations and (word := layers.activation_of(module)) is not None:
                layers.activate(conv, word)
                folded._undo.append(partial(layers.give_back, conv, entirely=True))
            else:
                break
            _put(folded, model, place, nn.Identity())
            taken.append(place)
            if layers.ACTIVATION in conv.__dict__:
                break
        if taken:
            folded.taken[name] = tuple(taken)
    return folded


def _traced(model: nn.Module) -> fx.Graph:
    try:
        return fx.Tracer().trace(model)
    except Exception as error:
        raise NotFoldable(f"torch.fx cannot trace the model: {error}") from error


def _chain(node: fx.Node, modules: dict[str, nn.Module]) -> Iterator[fx.Node]:
    """Yield the modules that come behind ``node``, as long as each is all that reads it."""
    while len(node.users) == 1:
        [node] = node.users
        if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            return
        if isinstance(modules[str(node.target)], nn.Identity):
            return
        yield node


def _is_fixed(norm: Any) -> bool:
    return norm.running_mean is not None and norm.running_var is not None


def _fold_norm(folded: Folded, conv: Any, norm: Any) -> None:
    old = (conv.weight, conv.bias)
    weight, bias = fuse_conv_bn_weights(
        _exact(conv.weight),
        _exact(conv.bias),
        _exact(norm.running_mean),
        _exact(norm.running_var),
        norm.eps,
        _exact(norm.weight),
        _exact(norm.bias),
    )
    # Like the old one in dtype and in memory format.
    new = torch.empty_like(conv.weight, requires_grad=False)
    new.copy_(weight.detach())
    wanted = conv.weight.requires_grad
    conv.weight = nn.Parameter(new, requires_grad=wanted)
    conv.bias = nn.Parameter(bias.detach().to(new.dtype), requires_grad=wanted)

    def undo() -> None:
        conv.weight, conv.bias = old

    folded._undo.append(undo)


def _exact(tensor: Any) -> Any:
    """Return a parameter's values in float32 at least; None stays None."""
    if tensor is None or tensor.dtype == torch.float64:
        return tensor
    return tensor.detach().float()


def _put(folded: Folded, model: nn.Module, place: str, module: nn.Module) -> None:
    parent, _, name = place.rpartition(".")
    holder = model.get_submodule(parent)
    old = getattr(holder, name)
    setattr(holder, name, module.train(old.training))
    folded._undo.append(partial(setattr, holder, name, old))
