"""Torch tensors against what a workload wants of them. Knows nothing of kernels or logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from autosched.runtime.errors import (
    NeedsGradient,
    WrongDevice,
    WrongDtype,
    WrongLayout,
    WrongShape,
)
from measure.compiler import interpreting
from measure.tensor import TORCH_DTYPES
from search_space import workload as space

#: The names that workloads give to torch's dtypes.
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in TORCH_DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Bound:
    """A tensor that lies as the workload says, and how many bytes were copied to that end."""

    tensor: torch.Tensor
    copied_bytes: int = 0


def dtype_name(what: str, dtype: torch.dtype | str, known: Sequence[str]) -> str:
    """Return the name of ``dtype`` if it is among ``known``; raises WrongDtype naming ``what``."""
    name = dtype if isinstance(dtype, str) else NAMES.get(dtype)
    if name is None or name not in known:
        raise WrongDtype(f"{what} is {dtype}; kernels here take {', '.join(known)}")
    return name


def check_device(tensors: Mapping[str, torch.Tensor]) -> torch.device:
    """Return the one device that all ``tensors`` are on; raises WrongDevice unless it is a GPU.

    The CPU counts as one where Triton's interpreter is on (TRITON_INTERPRET=1), for debugging.
    """
    first, *others = tensors.items()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise WrongDtype(f"{name} is a {type(tensor).__name__}, not a torch tensor")
    for name, tensor in tensors.items():
        if tensor.device.type != "cuda" and not (tensor.is_cpu and interpreting()):
            raise WrongDevice(
                f"{name} is on {tensor.device}; served kernels need a GPU: move it to cuda, "
                "or call torch"
            )
    for name, tensor in others:
        if tensor.device != first[1].device:
            raise WrongDevice(f"{name} is on {tensor.device}, but {first[0]} on {first[1].device}")
    return first[1].device


def check_gradient(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise NeedsGradient if autograd would expect to see a call with these tensors."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            raise NeedsGradient(
                f"{name} requires grad, and served kernels have no backward: call under "
                "torch.no_grad(), or detach it"
            )


def check_rank(name: str, tensor: torch.Tensor, rank: int) -> None:
    """Raise WrongShape unless ``tensor`` has ``rank`` dimensions."""
    if tensor.dim() != rank:
        raise WrongShape(f"{name} has shape {tuple(tensor.shape)}; it must have {rank} dimensions")


def is_column_major(tensor: torch.Tensor) -> bool:
    """Say whether the last two dimensions are a transposed view of contiguous memory."""
    return not tensor.is_contiguous() and tensor.transpose(-1, -2).is_contiguous()


def runs_down_columns(tensor: torch.Tensor) -> bool:
    """Say whether neighbours in a column, and not in a row, are neighbours in memory."""
    return tensor.stride(-2) == 1 and tensor.stride(-1) != 1 and tensor.shape[-1] > 1


def aligned_bytes(tensor: torch.Tensor) -> int:
    """Return the largest power of two, 256 at the most, that divides the tensor's address."""
    address = tensor.data_ptr()
    return min(address & -address, 256) or 256


def bind_input(name: str, tensor: torch.Tensor, wish: space.Tensor) -> Bound:
    """Return ``tensor`` laid out as ``wish`` says, copied where its strides or address differ.

    Raises WrongShape and WrongDtype. A copy costs a read and a write of the tensor per call.
    """
    _check_kind(name, tensor, wish)
    if lies_as(tensor, wish):
        return Bound(tensor)
    copy = torch.empty_strided(wish.shape, wish.strides, dtype=tensor.dtype, device=tensor.device)
    copy.copy_(tensor)
    return Bound(copy, wish.elements * tensor.element_size())


def check_output(
    out: torch.Tensor, wish: space.Tensor, device: torch.device, inputs: Mapping[str, torch.Tensor]
) -> None:
    """Raise the error that fits unless ``out`` can be written in place, apart from all inputs."""
    if out.device != device:
        raise WrongDevice(f"out is on {out.device}, but the inputs on {device}")
    _check_kind("out", out, wish)
    if not lies_as(out, wish):
        raise WrongLayout(
            f"out has strides {out.stride()} at an address {out.data_ptr() % wish.alignment_bytes} "
            f"bytes past alignment; it must have strides {wish.strides}, "
            f"aligned to {wish.alignment_bytes} bytes"
        )
    for name, tensor in inputs.items():
        if _overlap(out, tensor):
            raise WrongLayout(
                f"out shares memory with {name}: it would be read after it is written"
            )


def _check_kind(name: str, tensor: torch.Tensor, wish: space.Tensor) -> None:
    if tuple(tensor.shape) != wish.shape:
        raise WrongShape(f"{name} has shape {tuple(tensor.shape)}; it must be {wish.shape}")
    if NAMES.get(tensor.dtype) != wish.dtype:
        raise WrongDtype(f"{name} is {tensor.dtype}; it must be {wish.dtype}")


def lies_as(tensor: torch.Tensor, wish: space.Tensor) -> bool:
    """Compare strides (those of extent 1 never count) and the address with the promise."""
    same = tensor.stride() == wish.strides or all(
        stride == wanted or extent == 1
        for extent, stride, wanted in zip(wish.shape, tensor.stride(), wish.strides, strict=True)
    )
    return same and tensor.data_ptr() % wish.alignment_bytes == 0


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare address ranges: spans, so interleaved views that share no byte are refused too."""
    (start, end), (low, high) = _span(one), _span(other)
    return start < high and low < end


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    reach = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (reach + 1) * tensor.element_size()
