"""Calls of torch's products and convolutions as specs, and their tensors as workloads store them.

``product`` and ``convolution`` return None for what no spec states: then torch computes. Nothing
here copies: a tensor that does not lie as a spec can say is no case for a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch

from autosched.runtime import matmul as operands
from autosched.runtime.errors import BadInput
from autosched.runtime.tensor import NAMES
from autosched.spec import SpecError, from_data
from search_space.workload import Workload

#: What spatial dimensions are called in specs: extents of the image and of the kernel, by rank.
_EXTENTS = {
    1: (("l",), ("kl",)),
    2: (("h", "w"), ("kh", "kw")),
    3: (("d", "h", "w"), ("kd", "kh", "kw")),
}
_FIRST = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
#: Dtypes of operands that both torch's layers and kernels know.
DTYPES = (torch.float16, torch.bfloat16, torch.float32)

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Described:
    """A call as a spec, with its inputs as the workload stores them, views of what was given.

    ``stored`` makes such views of the tensors of another call of this kind, ``restored`` of the
    workload's output the result that torch gives.
    """

    fields: Fields
    workload: Workload
    inputs: tuple[torch.Tensor, ...]
    stored: Callable[..., tuple[torch.Tensor, ...]]
    restored: Callable[[torch.Tensor], torch.Tensor]


def precision_of_products(dtype: torch.dtype) -> str:
    """Return how torch would multiply matrices of ``dtype`` now."""
    exact = dtype != torch.float32 or torch.get_float32_matmul_precision() == "highest"
    return "ieee" if exact else "tf32"


def precision_of_convolutions(dtype: torch.dtype) -> str:
    """Return how torch would multiply in convolutions of ``dtype`` now."""
    return "tf32" if dtype == torch.float32 and torch.backends.cudnn.allow_tf32 else "ieee"


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
) -> Described | None:
    """Return ``activation(a @ b + bias)`` of two matrices, or of two batches of as many.

    ``bias`` is [n]. Transposed views of contiguous memory are the other layout.
    """
    if a.dtype not in DTYPES or not 2 <= a.dim() == b.dim() <= 3 or 0 in (*a.shape, *b.shape):
        return None
    if bias is not None and (bias.dim() != 1 or bias.dtype != a.dtype):
        return None
    (a, trans_a), (b, trans_b) = operands.stored(a, False), operands.stored(b, False)
    extras = {} if bias is None else {"bias": bias}
    tensors = (a, b, *extras.values())
    if not all(tensor.is_contiguous() for tensor in tensors):
        return None
    how = precision_of_products(a.dtype)
    try:
        signature = operands.signature_of(a, b, trans_a, trans_b, extras, activation, None, how)
        workload = operands.workload_of(signature)
    except BadInput:
        return None
    s = signature
    fields: dict[str, Any] = {"op": "matmul" if s.batch is None else "batch_matmul"}
    fields |= {} if s.batch is None else {"batch": s.batch}
    fields |= {"m": s.m, "n": s.n, "k": s.k, "dtype": s.dtype}
    fields |= {name: True for name in ("trans_a", "trans_b") if getattr(s, name)}
    fields |= {"precision": how} if a.dtype == torch.float32 else {}
    fields |= {"epilogue": list(s.epilogue)} if s.epilogue else {}
    return Described(fields, workload, tensors, partial(_turned, trans_a, trans_b), _as_it_is)


def _turned(
    trans_a: bool, trans_b: bool, a: torch.Tensor, b: torch.Tensor, *extras: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    a = a.transpose(-1, -2) if trans_a else a
    return a, b.transpose(-1, -2) if trans_b else b, *extras


def _as_it_is(output: torch.Tensor) -> torch.Tensor:
    return output


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
    activation: str | None = None,
) -> Described | None:
    """Return ``activation(conv(x, weight) + bias)`` with torch's arguments, for 1 to 3 dimensions.

    Channels lie last where both ``x`` and ``weight`` have torch's memory format for that.
    """
    rank = x.dim() - 2
    if x.dtype not in DTYPES or weight.dtype != x.dtype or rank not in _EXTENTS:
        return None
    if weight.dim() != x.dim() or 0 in (*x.shape, *weight.shape) or x.shape[1] % groups:
        return None
    if weight.shape[0] % groups or weight.shape[1] * groups != x.shape[1]:
        return None
    if bias is not None and (bias.dim() != 1 or bias.dtype != x.dtype):
        return None
    last = _is_last(x, rank) and not x.is_contiguous()
    last = last or (_is_last(x, rank) and _is_last(weight, rank) and not weight.is_contiguous())
    inner, outer = x.shape[1] // groups, weight.shape[0] // groups
    depthwise = inner == 1 and groups > 1
    split = outer > 1 if depthwise else groups > 1
    view = partial(_stored, groups=groups, outer=outer, last=last, depthwise=depthwise, split=split)
    try:
        stored = view(x, weight, *([] if bias is None else [bias]))
    except RuntimeError:  # no view lies so
        return None
    if not all(tensor.is_contiguous() for tensor in stored):
        return None
    fields = _fields(x, weight, groups, rank, stride, padding, dilation, last=last)
    epilogue = [*(["bias"] if bias is not None else []), *([activation] if activation else [])]
    fields |= {"epilogue": epilogue} if epilogue else {}
    workload = _workload(_frozen(fields))
    if workload is None:
        return None
    restored = partial(_restored, rank=rank, last=last, split=split)
    return Described(fields, workload, stored, view, restored)


def _is_last(tensor: torch.Tensor, rank: int) -> bool:
    return rank in _LAST and tensor.is_contiguous(memory_format=_LAST[rank])


def _stored(
    x: torch.Tensor,
    weight: torch.Tensor,
    *bias: torch.Tensor,
    groups: int,
    outer: int,
    last: bool,
    depthwise: bool,
    split: bool,
) -> tuple[torch.Tensor, ...]:
    """Return views of all operands as a workload declares them; RuntimeError if one has none."""
    if last:
        x = x.movedim(1, -1)
        weight = weight if depthwise else weight.movedim(1, -1)
    if depthwise:
        weight = weight.view(groups, *([outer] if outer > 1 else []), *weight.shape[2:])
    elif groups > 1:
        place = x.dim() - 1 if last else 1
        shape = x.shape
        x = x.view(*shape[:place], groups, shape[place] // groups, *shape[place + 1 :])
        weight = weight.view(groups, outer, *weight.shape[1:])
    return x, weight, *(one.view(groups, outer) if split else one for one in bias)


def _fields(
    x: torch.Tensor,
    weight: torch.Tensor,
    groups: int,
    rank: int,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    *,
    last: bool,
) -> dict[str, Any]:
    images, taps = _EXTENTS[rank]
    inner, outer = x.shape[1] // groups, weight.shape[0] // groups
    depthwise = inner == 1 and groups > 1
    fields: dict[str, Any] = {"op": f"{'depthwise_' * depthwise}conv{rank}d", "n": x.shape[0]}
    fields |= dict(zip(images, x.shape[2:], strict=True))
    fields |= {"ci": x.shape[1]}
    if depthwise:
        fields |= {"multiplier": outer} if outer > 1 else {}
    else:
        fields |= {"co": weight.shape[0]}
        fields |= {"groups": groups} if groups > 1 else {}
    fields |= dict(zip(taps, weight.shape[2:], strict=True))
    for name, value, usual in (("stride", stride, 1), ("dilation", dilation, 1)):
        fields |= {} if all(n == usual for n in value) else {name: [int(n) for n in value]}
    pads = _pads(padding, weight.shape[2:], dilation)
    fields |= {"pad": pads} if any(any(pair) for pair in pads) else {}
    fields |= {} if last else {"layout": _FIRST[rank]}
    fields["dtype"] = NAMES[x.dtype]
    if x.dtype == torch.float32:
        fields["precision"] = precision_of_convolutions(x.dtype)
    return fields


def _pads(
    padding: Sequence[int] | str, taps: Sequence[int], dilation: Sequence[int]
) -> list[list[int]]:
    """Return the padding before and after of each dimension; torch's "same" pads behind first."""
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
        return [[total // 2, total - total // 2] for total in totals]
    if isinstance(padding, str):
        return [[0, 0] for _ in taps]
    return [[int(n), int(n)] for n in padding]


def _restored(output: torch.Tensor, *, rank: int, last: bool, split: bool) -> torch.Tensor:
    if split:
        place = rank + 1 if last else 1
        output = output.flatten(place, place + 1)
    return output.movedim(-1, 1) if last else output


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((name, _frozen(held)) for name, held in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _thawed(value: Any) -> Any:
    return [_thawed(held) for held in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=4096)
def _workload(frozen: tuple[tuple[str, Any], ...]) -> Workload | None:
    """Return the workload that fields state, or None where they state none."""
    try:
        return from_data("a call", {name: _thawed(value) for name, value in frozen}).workload
    except SpecError:
        return None
