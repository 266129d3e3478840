"""What a call of one kind does, found out by its first call. Knows no log and picks nothing.

What serves a call depends on the kinds of its tensors and on its options. So the second call of a
kind need not find out again: it has a plan, and checks what may differ between calls of one kind,
which is addresses, gradients and overlap. A plan answers None where its kind does not hold after
all, and the call goes the long way, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from autosched.runtime.engine import Engine, KernelEngine
from measure.tensor import TORCH_DTYPES, storage_elements
from search_space.workload import Tensor, Workload, contiguous_strides

#: Shape, strides, dtype and device: all of a tensor but where it lies and what is in it.
Kind = tuple[Any, ...] | None
#: What allocators give, and workloads promise if nothing else is said, bytes.
USUAL_ALIGNMENT = 16
#: Plans that are kept; beyond, all go.
MOST_PLANS = 4096


def kind(tensor: torch.Tensor | None) -> Kind:
    """Return the kind of a tensor; None of none."""
    if tensor is None:
        return None
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device())


def holds(workload: Workload) -> bool:
    """Say whether a plan for ``workload`` is right for every call of its kind.

    Where the log holds records of less alignment, what serves depends on addresses; with the
    usual one, all that lies so is served by it.
    """
    return all(t.alignment_bytes == USUAL_ALIGNMENT for t in (*workload.inputs, workload.output))


class Plan:
    """Runs an engine on tensors of the kinds that a workload takes as they lie.

    ``turned`` says of each input whether the engine wants its last two dimensions swapped, a view.
    """

    __slots__ = ("_engine", "_mask", "_new", "_reach", "_start", "_turned", "_written")

    def __init__(
        self, engine: Engine, workload: Workload, device: torch.device, turned: Sequence[bool]
    ) -> None:
        self._engine = engine
        alone = isinstance(engine, KernelEngine) and engine.needs_addresses_alone
        self._start = engine.start if isinstance(engine, KernelEngine) and alone else None
        self._turned = tuple(turned) if any(turned) else ()
        #: Of the strictest alignment: a call with less goes the long way.
        self._mask = max(t.alignment_bytes for t in (*workload.inputs, workload.output)) - 1
        #: Bytes from the first element of each input to its last, and of the output.
        self._reach = tuple(map(_reach, workload.inputs))
        self._written = _reach(workload.output)
        self._new = _maker(workload.output, device)

    @property
    def by_address(self) -> bool:
        """Whether of tensors only their addresses count: any views of the same memory will do."""
        return self._start is not None

    def run(self, inputs: Sequence[torch.Tensor], out: torch.Tensor | None) -> torch.Tensor | None:
        """Return the result, or None where the tensors are not what the plan is for."""
        if torch.is_grad_enabled():
            for tensor in inputs:
                if tensor.requires_grad:
                    return None
            if out is not None and out.requires_grad:
                return None
        addresses = [tensor.data_ptr() for tensor in inputs]
        if out is None:
            out = self._new()
            start = out.data_ptr()
        else:
            start = out.data_ptr()
            end = start + self._written
            for address, reach in zip(addresses, self._reach):  # noqa: B905  strict costs 0.4 us
                if address < end and start < address + reach:
                    return None
        together = start
        for address in addresses:
            together |= address
        if together & self._mask:
            return None
        if self._start is not None:
            self._start((*addresses, start))
            return out
        if self._turned:
            inputs = [
                t.transpose(-1, -2) if turned else t
                for t, turned in zip(inputs, self._turned, strict=True)
            ]
        return self._engine.run(inputs, out)


class Prepared:
    """A workload made ready on one device: what a call costs is checking tensors and starting.

    Made by ``Tuned.prepare``. Call it as ``prepared(*inputs, out=None)``, inputs in the workload's
    order and stored as it says; raises BadInput where they are not.
    """

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        device: torch.device,
        otherwise: Callable[..., torch.Tensor],
    ) -> None:
        self.plan = plan
        self._workload = workload
        index = device.index if device.type == "cuda" else -1
        self._kinds = tuple(
            (torch.Size(t.shape), t.strides, TORCH_DTYPES[t.dtype], index) for t in workload.inputs
        )
        output = workload.output
        self._out = (torch.Size(output.shape), output.strides, TORCH_DTYPES[output.dtype], index)
        self._otherwise = otherwise

    def __call__(self, *inputs: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the result, in ``out`` if it is given, on the device's current stream."""
        if (made := self.run(inputs, out)) is not None:
            return made
        return self._otherwise(self._workload, *inputs, out=out)

    def run(self, inputs: Sequence[torch.Tensor], out: torch.Tensor | None) -> torch.Tensor | None:
        """Return the result, or None where the tensors are not what the workload says."""
        try:
            same = tuple(map(kind, inputs)) == self._kinds and (
                out is None or kind(out) == self._out
            )
        except AttributeError:  # something is no tensor
            return None
        return self.plan.run(inputs, out) if same else None


def _maker(output: Tensor, device: torch.device) -> Callable[[], torch.Tensor]:
    """Return what makes outputs; rows without gaps go through the cheaper of torch's calls."""
    dtype = TORCH_DTYPES[output.dtype]
    if output.strides == contiguous_strides(output.shape):
        return partial(torch.empty, output.shape, dtype=dtype, device=device)
    return partial(torch.empty_strided, output.shape, output.strides, dtype=dtype, device=device)


def _reach(tensor: Tensor) -> int:
    return storage_elements(tensor) * TORCH_DTYPES[tensor.dtype].itemsize
