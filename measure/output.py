"""An output that shows what was not written, and what was written beside it.

Knows nothing of what is computed. Every byte is 0xFF before a run: NaN in any float format, -1 in
an integer. The same bytes lie before and after the output, and no kernel may change them.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from measure.tensor import TORCH_DTYPES, Described, storage_elements

#: Bytes on either side that no kernel may write. A multiple of any alignment.
GUARD_BYTES = 64 << 10


class GuardedOutput:
    """A tensor between two guard bands."""

    def __init__(self, described: Described, device: torch.device) -> None:
        dtype = TORCH_DTYPES[described.dtype]
        size_bytes = storage_elements(described) * dtype.itemsize
        padded_bytes = -(-size_bytes // 256) * 256
        self._bytes = torch.empty(
            GUARD_BYTES + padded_bytes + GUARD_BYTES, dtype=torch.int8, device=device
        )
        inside = self._bytes[GUARD_BYTES : GUARD_BYTES + padded_bytes].view(dtype)
        #: The output itself, of the shape, strides and dtype described.
        self.tensor = inside.as_strided(described.shape, described.strides, inside.storage_offset())
        self._before = self._bytes[:GUARD_BYTES]
        self._after = self._bytes[GUARD_BYTES + size_bytes :]

    def poison(self) -> None:
        """Fill the output and its guards with 0xFF."""
        self._bytes.fill_(-1)

    def overrun(self) -> torch.Tensor:
        """Return, on the device, whether a guard has changed since ``poison``."""
        return (self._before != -1).any() | (self._after != -1).any()

    def untouched(self) -> bool:
        """Whether any element still holds what ``poison`` put there. Waits for the device."""
        widths = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        bits = self.tensor.view(widths[self.tensor.element_size()])
        return bool((bits == -1).any())


def poison(tensors: Iterable[torch.Tensor]) -> None:
    """Fill contiguous tensors with 0xFF, so that a kernel that reads before it writes is seen."""
    for tensor in tensors:
        if tensor.numel() and tensor.is_contiguous():
            tensor.view(-1).view(torch.int8).fill_(-1)
