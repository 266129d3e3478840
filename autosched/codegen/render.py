"""Schedules to programs: replay the steps, write each nest's kernel, plan buffers and launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.codegen.arrival import points
from autosched.codegen.grid import programs
from autosched.codegen.kernel import write_kernel
from autosched.codegen.promise import promises
from search_space.apply import replay
from search_space.nest import Nest
from search_space.program import Buffer, BufferRole, Kernel, Program, Traffic, preparing
from search_space.schedule import Schedule
from search_space.target import Target
from search_space.workload import Tensor, Workload

#: Part of every record: a schedule replays to the same text under the same number. Raise it
#: when the text of any kernel changes; the goldens fail until it is raised.
RENDERING_VERSION = 3


def render(workload: Workload, schedule: Schedule, target: Target) -> Program:
    """Return the program that ``schedule`` makes of ``workload``.

    Raises:
        IllegalStep: a step that may not apply, or a nest left unfinished.
    """
    nests = sorted(replay(workload, schedule), key=lambda nest: nest.turn)
    buffers = _buffers(workload, nests)
    marks = preparing(buffers, [_traffic(nest) for nest in nests])
    # Shares of a product of constants could be kept too; what computes is timed all the same.
    kernels = (
        _kernel(nest, target, mark and nest.turn < 0)
        for nest, mark in zip(nests, marks, strict=True)
    )
    return Program(
        buffers=buffers,
        kernels=tuple(kernels),
        rendering_version=RENDERING_VERSION,
        workload_key=workload.key,
    )


def _traffic(nest: Nest) -> Traffic:
    written = {t.name for t in (*nest.workspaces, nest.output)} | {nest.counter} - {""}
    inputs = {nest.buffer(tensor.name) for tensor in nest.inputs}
    return Traffic(frozenset(inputs), frozenset(nest.buffer(name) for name in written))


def _kernel(nest: Nest, target: Target, prepares: bool) -> Kernel:
    body = write_kernel(nest)
    return Kernel(
        name=nest.name,
        source=body.source,
        arguments=body.arguments,
        grid=(programs(nest).count, 1, 1),
        warps=nest.warps,
        stages=nest.stages,
        promises=promises(nest, body, target),
        prepares=prepares,
    )


def _buffers(workload: Workload, nests: Sequence[Nest]) -> tuple[Buffer, ...]:
    return (
        *(_buffer(tensor, "input") for tensor in workload.inputs),
        *(buffer for nest in nests for buffer in _workspaces(workload, nest)),
        _buffer(workload.output, "output"),
    )


def _workspaces(workload: Workload, nest: Nest) -> Iterator[Buffer]:
    for tensor in nest.workspaces:
        yield _buffer(tensor, "workspace")
    if nest.buffer(nest.output.name) != workload.output.name:
        yield _buffer(nest.output, "workspace", zeroed=nest.atomic)
    if nest.counter:
        yield Buffer(nest.counter, (points(nest),), (1,), "int32", "workspace", kept_zero=True)


def _buffer(tensor: Tensor, role: BufferRole, *, zeroed: bool = False) -> Buffer:
    return Buffer(
        name=tensor.name,
        shape=tensor.shape,
        strides=tensor.strides,
        dtype=tensor.dtype,
        role=role,
        zeroed=zeroed,
        alignment_bytes=tensor.alignment_bytes,
        constant=role == "input" and tensor.constant,
    )
