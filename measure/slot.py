"""The tensors that a program is bound to, into which the data of one case after another go.

A program is bound once and sees every case at the same addresses. So what it kept from one case,
in a workspace or anywhere else, is wrong in the next, and what it did to its inputs is undone.
Knows nothing of what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Slots:
    """One tensor for each of ``inputs``, alike in shape, strides, dtype and alignment."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        self._flat = [torch.empty_like(_flat(tensor)) for tensor in inputs]
        self.tensors = tuple(
            flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            for flat, tensor in zip(self._flat, inputs, strict=True)
        )

    def load(self, inputs: Sequence[torch.Tensor]) -> None:
        """Copy data in, the gaps between rows included. Queued on the current stream."""
        for flat, tensor in zip(self._flat, inputs, strict=True):
            flat.copy_(_flat(tensor))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return all that the tensor's storage holds, in one dimension, from its first byte.

    Bytes are what is copied: NaN with a payload stays what it is.
    """
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)
