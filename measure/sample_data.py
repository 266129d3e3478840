"""Inputs to try a program on, by seed. Knows nothing of what is computed from them."""

from __future__ import annotations

import torch

from measure.tensor import TORCH_DTYPES, storage_elements
from search_space.dtype import DTYPES
from search_space.workload import Tensor, Workload

#: Edge inputs are integers from -EDGE to EDGE: sums of their products are exact in float32.
EDGE = 2
_INT8_LARGEST = 127


def random_inputs(workload: Workload, seed: int, device: torch.device) -> list[torch.Tensor]:
    """Return one tensor per input of ``workload``: normal of deviation 1, or uniform integers.

    What lies between the rows of a padded tensor is NaN, so that a kernel which reads it and
    uses it is seen. Equal seeds give equal data on equal devices.
    """
    generator = torch.Generator(device).manual_seed(seed)
    return [_place(t, _random(t, generator, device), device) for t in workload.inputs]


def edge_inputs(workload: Workload, seed: int, device: torch.device) -> list[torch.Tensor]:
    """Return small integers in every input, so that sums are exact and an index error shows."""
    generator = torch.Generator(device).manual_seed(seed)
    return [_place(t, _small_integers(t, generator, device), device) for t in workload.inputs]


def _random(tensor: Tensor, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    if DTYPES[tensor.dtype].kind == "int":
        return torch.randint(
            -_INT8_LARGEST, _INT8_LARGEST + 1, tensor.shape, generator=generator, device=device
        )
    dtype = TORCH_DTYPES[tensor.dtype] if tensor.dtype != "float8_e4m3" else torch.float32
    return torch.randn(tensor.shape, generator=generator, device=device, dtype=dtype)


def _small_integers(
    tensor: Tensor, generator: torch.Generator, device: torch.device
) -> torch.Tensor:
    values = torch.randint(
        -EDGE, EDGE + 1, tensor.shape, generator=generator, device=device, dtype=torch.int8
    )
    return values.to(TORCH_DTYPES[tensor.dtype])


def _place(tensor: Tensor, values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Put ``values`` where the tensor's strides and alignment say, NaN in the gaps."""
    dtype = TORCH_DTYPES[tensor.dtype]
    shift = tensor.alignment_bytes // dtype.itemsize if tensor.alignment_bytes < 16 else 0
    storage = torch.empty(storage_elements(tensor) + shift, dtype=dtype, device=device)
    view = storage.as_strided(tensor.shape, tensor.strides, shift)
    if storage.numel() > tensor.elements and dtype.is_floating_point:
        storage.fill_(float("nan"))
    if all(tensor.strides):
        view.copy_(values)
        return view
    # A stride of 0 repeats one element: write it once.
    once = tuple(slice(None) if stride else slice(0, 1) for stride in tensor.strides)
    view[once].copy_(values[once])
    return view
