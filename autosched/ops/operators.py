"""Products and convolutions as operators of torch, with fakes and gradients.

Each takes torch's own layouts and gives torch's own results. Where a log holds the workload, a
kernel computes it; else, and for whatever kernels do not take (the CPU, float64, other ranks,
views that no spec states), torch does. Under ``torch.compile`` and ``torch.export`` each is a
single node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own custom)

from autosched.ops import described
from autosched.ops.serving import DEFAULT, Serving, serving
from autosched.runtime.plan import kind
from measure.compiler import interpreting

Tensor = torch.Tensor
#: How torch computes what operators may end in.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    *,
    log: int = DEFAULT,
) -> Tensor:
    """Return ``activation(a @ b + bias)`` as ``torch.matmul`` does.

    Matrices [m, k] and [k, n], or as many of each in a batch, are a log's; other ranks and
    broadcast batches are torch's. ``bias`` is [n]; ``activation`` relu, gelu, gelu_tanh or silu.
    ``log`` is a handle of ``register``, by default the log of ``use``. Raises what torch raises.
    """
    a, b, bias = _autocast(a, b, bias)
    return _activated(_MATMUL, _matmul, (a, b, bias), activation, (log,))


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    *,
    log: int = DEFAULT,
) -> Tensor:
    """Return ``activation(x @ weight.T + bias)`` as ``torch.nn.functional.linear`` does.

    ``x`` is [..., k], ``weight`` [n, k], ``bias`` [n]; see ``matmul``.
    """
    x, weight, bias = _autocast(x, weight, bias)
    tensors = (x, weight, bias)
    return _activated(_LINEAR, _linear, tensors, activation, (log,))


def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **how: Any) -> Tensor:
    """Return a convolution of [n, c, l]; see ``conv2d``."""
    return _conv(1, x, weight, bias, *args, **how)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **how: Any) -> Tensor:
    """Return ``activation(conv2d(x, weight) + bias)`` as ``torch.nn.functional.conv2d`` does.

    Its further arguments are torch's: ``stride``, ``padding``, ``dilation``, ``groups``; then
    ``activation``, and ``log`` by name, as of ``matmul``. Contiguous tensors and those of torch's
    format with channels last are a log's; where both operands have the latter, so has the result.
    """
    return _conv(2, x, weight, bias, *args, **how)


def conv3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **how: Any) -> Tensor:
    """Return a convolution of [n, c, d, h, w]; see ``conv2d``."""
    return _conv(3, x, weight, bias, *args, **how)


def _conv(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    *,
    log: int = DEFAULT,
) -> Tensor:
    x, weight, bias = _autocast(x, weight, bias)
    if x.dim() == rank + 1:  # one image without a batch
        made = _conv(
            rank, x[None], weight, bias, stride, padding, dilation, groups, activation, log=log
        )
        return made[0]
    stride = stride if isinstance(stride, tuple) else _each(stride, rank)
    dilation = dilation if isinstance(dilation, tuple) else _each(dilation, rank)
    name, pads = "", padding
    if isinstance(padding, str):
        name, pads = padding, (0,) * rank
    elif not isinstance(padding, tuple):
        pads = _each(padding, rank)
    how = (stride, pads, name, dilation, groups, log)
    tensors = (x, weight, bias)
    return _activated(_CONV, _convolution, tensors, activation, how)


def _each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(int(n) for n in value)


def _autocast(first: Tensor, second: Tensor, third: Tensor | None) -> Any:
    """Cast as torch's own products are under ``torch.autocast``."""
    device = "cuda" if first.is_cuda else first.device.type
    if not torch.is_autocast_enabled(device):
        return first, second, third
    dtype = torch.get_autocast_dtype(device)
    return tuple(
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t
        for t in (first, second, third)
    )


def _activated(
    operator: Any,
    direct: Callable[..., Tensor],
    tensors: tuple[Tensor | None, ...],
    activation: str | None,
    how: tuple[Any, ...],
) -> Tensor:
    """Compute by ``direct`` where nothing but values is wanted, else by the operator, which torch
    can trace and differentiate; the activation is then torch's."""
    if activation is not None and activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"activation={activation!r} is not known; known: {known}")
    if _transformed():
        made = direct(*tensors, None, *how[:-1], -1)
    elif torch.compiler.is_compiling() or not _plain(tensors):
        graded = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
        if not graded:
            result: Tensor = operator(*tensors, activation, *how)
            return result
        made = operator(*tensors, None, *how)
    else:
        return direct(*tensors, activation, *how)
    return made if activation is None else ACTIVATIONS[activation](made)


def _plain(tensors: Sequence[Tensor | None]) -> bool:
    """Say whether tensors are just values: of no subclass, under no mode, and without gradients."""
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return False
    graded = torch.is_grad_enabled()
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) is not Tensor and type(tensor) is not torch.nn.Parameter:
            return False
        if graded and tensor.requires_grad:
            return False
    return True


def _transformed() -> bool:
    """Say whether a transform of torch.func is at work, which sees torch's own operators alone."""
    return not torch.compiler.is_compiling() and bool(torch._C._functorch.peek_interpreter_stack())


def _served(handle: int, x: Tensor) -> Serving | None:
    """Return the log of a handle, where kernels run on the device of ``x``."""
    return serving(handle) if x.is_cuda or (x.is_cpu and interpreting()) else None


def _matmul(a: Tensor, b: Tensor, bias: Tensor | None, activation: str | None, log: int) -> Tensor:
    held = _served(log, a)
    if held is not None:
        key = ("matmul", kind(a), kind(b), kind(bias), activation, _settings(a.dtype))
        choice = held.decide(key, described.product, a, b, bias, activation)
        if choice.by_kernel:
            return held.run(choice, a, b) if bias is None else held.run(choice, a, b, bias)
    made = torch.matmul(a, b)
    made = made if bias is None else made + bias
    return made if activation is None else ACTIVATIONS[activation](made)


def _linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, log: int
) -> Tensor:
    held = _served(log, x)
    if held is not None and weight.dim() == 2 and x.dim() > 1 and x.is_contiguous():
        key = ("linear", kind(x), kind(weight), kind(bias), activation, _settings(x.dtype))
        choice = held.decide(key, _described_linear, x, weight, bias, activation)
        if choice.by_kernel:
            if bias is None:
                return held.run(choice, x, weight)
            return held.run(choice, x, weight, bias)
    made = F.linear(x, weight, bias)
    return made if activation is None else ACTIVATIONS[activation](made)


def _described_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None
) -> described.Described | None:
    """Return a linear layer as the product of its rows with the columns of its weight."""
    made = described.product(x.view(-1, x.shape[-1]), weight.t(), bias, activation)
    if made is None:
        return None
    shape = (*x.shape[:-1], weight.shape[0])
    return replace(made, stored=partial(_rows, made.stored), restored=lambda y: y.view(shape))


def _rows(
    stored: Callable[..., tuple[Tensor, ...]], x: Tensor, weight: Tensor, *bias: Tensor
) -> tuple[Tensor, ...]:
    return stored(x.view(-1, x.shape[-1]), weight.t(), *bias)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    stride: Sequence[int],
    padding: Sequence[int],
    padding_name: str,
    dilation: Sequence[int],
    groups: int,
    log: int,
) -> Tensor:
    pads: Any = padding_name or list(padding)
    held = _served(log, x)
    if held is not None and x.dim() == len(stride) + 2:
        how = (*stride, *padding, padding_name, *dilation, groups)
        key = ("conv", kind(x), kind(weight), kind(bias), activation, _settings(x.dtype), how)
        call = (x, weight, bias, stride, pads, dilation, groups, activation)
        choice = held.decide(key, described.convolution, *call)
        if choice.by_kernel:
            if bias is None:
                return held.run(choice, x, weight)
            return held.run(choice, x, weight, bias)
    torchs = _CONVOLUTIONS[len(stride)]
    made = torchs(x, weight, bias, list(stride), pads, list(dilation), groups)
    return made if activation is None else ACTIVATIONS[activation](made)


def _settings(dtype: torch.dtype) -> tuple[bool, bool] | None:
    """Return what of torch's settings says how float32 is multiplied; None of other dtypes."""
    if dtype != torch.float32:
        return None
    return torch.get_float32_matmul_precision() == "highest", torch.backends.cudnn.allow_tf32


# Shapes, dtypes and strides of a result are those of torch's own, whatever computes it.


def _fake_matmul(
    a: Tensor, b: Tensor, bias: Tensor | None, activation: str | None, log: int
) -> Tensor:
    del activation, log
    made = torch.matmul(a, b)
    return made if bias is None else made + bias


def _fake_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, log: int
) -> Tensor:
    del activation, log
    return F.linear(x, weight, bias)


def _fake_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    stride: Sequence[int],
    padding: Sequence[int],
    padding_name: str,
    dilation: Sequence[int],
    groups: int,
    log: int,
) -> Tensor:
    del activation, log
    pads: Any = padding_name or list(padding)
    return _CONVOLUTIONS[len(stride)](x, weight, bias, list(stride), pads, list(dilation), groups)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    first, second, bias, activation, *ctx.how = inputs
    if activation is not None:
        raise NotImplementedError("an activation inside the operator has no gradient")
    ctx.save_for_backward(first, second)
    ctx.biased = bias is not None


def _matmul_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    [log] = ctx.how
    bias = grad.reshape(-1, grad.shape[-1]).sum(0) if ctx.biased else None
    if a.dim() == b.dim() and a.dim() in (2, 3) and a.shape[:-2] == b.shape[:-2]:
        left = matmul(grad, b.transpose(-1, -2), log=log) if ctx.needs_input_grad[0] else None
        right = matmul(a.transpose(-1, -2), grad, log=log) if ctx.needs_input_grad[1] else None
        return left, right, bias, None, None
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (a, b)]
        made = torch.matmul(*leaves)
    left, right = torch.autograd.grad(made, leaves, grad)
    return left, right, bias, None, None


def _linear_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    [log] = ctx.how
    rows, steep = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    left = matmul(steep, weight, log=log).view(x.shape) if ctx.needs_input_grad[0] else None
    right = matmul(steep.t(), rows, log=log) if ctx.needs_input_grad[1] else None
    return left, right, steep.sum(0) if ctx.biased else None, None, None


def _conv_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """By torch: what differentiates a convolution is one call there."""
    x, weight = ctx.saved_tensors
    stride, padding, name, dilation, groups, _ = ctx.how
    rank = x.dim() - 2
    pads = list(padding)
    cut: list[int] = []
    if name == "same":
        totals = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
        # torch pads behind first: an odd total is a padding of its own before a symmetric one.
        cut = [n for total in reversed(totals) for n in (0, total % 2)]
        pads = [total // 2 for total in totals]
    padded = F.pad(x, cut) if any(cut) else x
    wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.biased]
    bias_sizes = [weight.shape[0]] if ctx.biased else None
    how = (list(stride), pads, list(dilation), False, [0] * rank, groups, wanted)
    left, right, bias = torch.ops.aten.convolution_backward(grad, padded, weight, bias_sizes, *how)
    if left is not None and any(cut):
        left = left[(slice(None), slice(None), *(slice(0, n) for n in x.shape[2:]))]
    return left, right, bias, None, None, None, None, None, None, None


_library: Any = torch.library.Library("autosched", "DEF")  # type: ignore[no-untyped-call]


def _registered(
    schema: str,
    real: Callable[..., Tensor],
    fake: Callable[..., Tensor],
    backward: Callable[..., tuple[Any, ...]],
) -> Any:
    """Make an operator of torch, by the plainest of its ways: others cost each call more."""
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, real, "CompositeExplicitAutograd")
    full = f"autosched::{name}"
    torch.library.register_fake(full, fake, lib=_library)
    torch.library.register_autograd(full, backward, setup_context=_keep, lib=_library)
    return getattr(torch.ops.autosched, name).default


_MATMUL = _registered(
    "matmul(Tensor a, Tensor b, Tensor? bias, str? activation, int log) -> Tensor",
    _matmul,
    _fake_matmul,
    _matmul_backward,
)
_LINEAR = _registered(
    "linear(Tensor x, Tensor weight, Tensor? bias, str? activation, int log) -> Tensor",
    _linear,
    _fake_linear,
    _linear_backward,
)
_CONV = _registered(
    "conv(Tensor x, Tensor weight, Tensor? bias, str? activation, int[] stride, int[] padding, "
    "str padding_name, int[] dilation, int groups, int log) -> Tensor",
    _convolution,
    _fake_conv,
    _conv_backward,
)
