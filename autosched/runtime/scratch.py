"""Workspaces that a program is given each time it runs. Knows no kernels.

Kernels of one program hand data on through them, so nobody else may run the same program on the
same ones in between: two threads queue theirs in between on one stream, two streams run side by
side. Hence a set for each thread and stream. What a CUDA graph records has a set of its own, in
the graph's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import torch

from measure.tensor import empty
from search_space.program import Buffer

#: Tensors by name.
Workspaces = Mapping[str, torch.Tensor]
#: Sets that a thread keeps: streams beyond push out the oldest.
MOST_STREAMS = 16


class Scratch:
    """Sets of the same workspaces on one CUDA device, safe to call from many threads."""

    def __init__(self, buffers: Sequence[Buffer], device: torch.device) -> None:
        self._buffers = tuple(buffers)
        self._device = device
        self._local = threading.local()

    def get(self, stream: int) -> Workspaces:
        """Return the calling thread's set for its current stream, whose handle is ``stream``.

        What must be zero before the first run is.
        """
        if not self._buffers:
            return {}
        if torch.cuda.is_current_stream_capturing():
            return self._made()
        sets: dict[int, Workspaces] | None = getattr(self._local, "sets", None)
        if sets is None:
            sets = self._local.sets = {}
        held = sets.get(stream)
        if held is None:
            if len(sets) >= MOST_STREAMS:
                sets.pop(next(iter(sets)))
            held = sets[stream] = self._made()
        return held

    def _made(self) -> Workspaces:
        made = {buffer.name: empty(buffer, self._device) for buffer in self._buffers}
        for buffer in self._buffers:
            if buffer.kept_zero:
                made[buffer.name].zero_()
        return made
