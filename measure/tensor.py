"""Torch tensors as workloads and programs describe them. Knows nothing of what is computed."""

from __future__ import annotations

import math
from typing import Protocol

import torch

TORCH_DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "float8_e4m3": torch.float8_e4m3fn,
    "int8": torch.int8,
    "int32": torch.int32,
}


class Described(Protocol):
    """What a tensor of a workload and a buffer of a program have in common."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, outermost first."""

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements."""

    @property
    def dtype(self) -> str:
        """The element type, by the name that ``search_space.dtype`` gives it."""


def empty(described: Described, device: torch.device) -> torch.Tensor:
    """Return an uninitialised tensor of the shape, strides and dtype described."""
    dtype = TORCH_DTYPES[described.dtype]
    return torch.empty_strided(described.shape, described.strides, dtype=dtype, device=device)


def storage_elements(described: Described) -> int:
    """Return how many elements lie from the first element of a tensor to its last."""
    if not math.prod(described.shape):
        return 0
    return 1 + sum((e - 1) * s for e, s in zip(described.shape, described.strides, strict=True))
