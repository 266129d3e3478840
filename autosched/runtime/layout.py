"""The same computation over tensors that lie otherwise: which records of a log take them as they
lie. Knows no kernels.

Strides and alignment are part of a workload's key, since kernels depend on them. So a log may hold
one computation several times, and a call is served best by the record whose layout its tensors
have: nothing is copied then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from autosched.runtime.tensor import lies_as
from autosched.te import IllegalExpression
from autosched.te.layout import check_layout
from measure.record import TrialRecord
from search_space.workload import Tensor, Workload

#: What of a line of canonical text says how a tensor is stored; numbers of a sane length.
_STORED = re.compile(r" strides=\[((?:\d{1,13}(?:,\d{1,13})*)?)\] align=(\d{1,4})")


class Relatives:
    """The records of a log by what they compute, however its tensors are stored."""

    def __init__(self, best: Mapping[str, TrialRecord]) -> None:
        self._best = best
        self._by_computation: dict[str, list[TrialRecord]] = {}
        for record in best.values():
            self._by_computation.setdefault(_computation(record.workload.text), []).append(record)
        self._known: dict[str, tuple[Workload, ...]] = {}

    def any(self, workload: Workload) -> bool:
        """Say whether the log holds what ``workload`` computes, stored otherwise."""
        return bool(self._of(workload))

    def fitting(
        self,
        workload: Workload,
        inputs: Sequence[torch.Tensor],
        output: torch.Tensor | None,
    ) -> Workload | None:
        """Return the logged workload that computes ``workload`` on the tensors as they lie.

        ``workload`` itself goes first, then the fastest; None where every record wants a copy.
        Without an ``output`` its strides are those of ``workload``.
        """
        logged = self._of(workload)
        if workload.key in self._best:
            logged = (workload, *logged)
        for stored in logged:
            wishes = [*stored.inputs, *([] if output is None else [stored.output])]
            tensors = [*inputs, *([] if output is None else [output])]
            as_wished = output is not None or stored.output.strides == workload.output.strides
            if as_wished and all(map(_fits, tensors, wishes)):
                return stored
        return None

    def _of(self, workload: Workload) -> tuple[Workload, ...]:
        """Return ``workload`` as it is stored elsewhere in the log, the fastest first."""
        if workload.key not in self._known:
            records = self._by_computation.get(_computation(workload.canonical), [])
            self._known[workload.key] = tuple(_stored_otherwise(workload, records))
        return self._known[workload.key]


def _stored_otherwise(workload: Workload, records: Iterable[TrialRecord]) -> Iterable[Workload]:
    for record in sorted(records, key=lambda record: record.latency_us or float("inf")):
        if record.workload.key != workload.key:
            made = stored_as(workload, record.workload.text)
            if made is not None:
                yield made


def stored_as(workload: Workload, text: str) -> Workload | None:
    """Return ``workload`` over tensors that lie as canonical ``text`` says.

    None where the text is of another computation, or says what no tensor can do: it comes from a
    log, and is data.
    """
    layouts = _STORED.findall(text)
    tensors = (*workload.inputs, *workload.intermediates, workload.output)
    if len(layouts) != len(tensors):
        return None
    made = [_stored(*pair) for pair in zip(tensors, layouts, strict=True)]
    inputs, output = made[: len(workload.inputs)], made[-1]
    try:
        for tensor in inputs:
            check_layout(tensor)
        check_layout(output, written=True)
    except IllegalExpression:
        return None
    stored = replace(workload, inputs=tuple(inputs), output=output)
    return stored if stored.canonical == text else None


def _stored(tensor: Tensor, layout: tuple[str, str]) -> Tensor:
    strides, aligned = layout
    held = tuple(int(stride) for stride in strides.split(",") if stride)
    return replace(tensor, strides=held, alignment_bytes=int(aligned))


def _computation(text: str) -> str:
    """Return canonical text without what it says of layouts."""
    return _STORED.sub("", text)


def _fits(tensor: torch.Tensor, wish: Tensor) -> bool:
    return tuple(tensor.shape) == wish.shape and lies_as(tensor, wish)
