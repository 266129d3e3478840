"""What is declared of a workload beside its expression: how products are formed, and which inputs
stay the same from call to call. Knows nothing of how it was built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autosched.te.error import IllegalExpression
from search_space.expr import Call, reads, walk
from search_space.workload import PRECISIONS, Precision, Workload


def with_precision(workload: Workload, precision: Precision) -> Workload:
    """Return ``workload`` with products formed another way: another key.

    "tf32" and "tf32x3" are refused where nothing of float32 is multiplied, "fast" where nothing
    of float8_e4m3 is; raises IllegalExpression.
    """
    if precision not in PRECISIONS:
        raise IllegalExpression(
            f"precision {str(precision)[:40]!r} is unknown; known: {', '.join(PRECISIONS)}",
            ("precision",),
        )
    about = {"tf32": "float32", "tf32x3": "float32", "fast": "float8_e4m3"}.get(precision)
    if about and not _multiplies(workload, about):
        raise IllegalExpression(
            f"precision {precision} is about products of {about} inputs, and there are none",
            ("precision",),
        )
    return replace(workload, precision=precision)


def with_constants(workload: Workload, names: Iterable[str]) -> Workload:
    """Return ``workload`` with inputs declared constant from call to call: another key.

    Raises IllegalExpression, its ``path`` the place in ``names``, on what is no input, stands
    twice, or leaves nothing that changes.
    """
    known = tuple(tensor.name for tensor in workload.inputs)
    taken: list[str] = []
    for place, name in enumerate(names):
        if name not in known:
            said = (
                "is the output; only inputs are constant"
                if name == workload.output.name
                else f"is no input; there are {', '.join(known)}"
            )
            raise IllegalExpression(f"{str(name)[:40]!r} {said}", (place,))
        if name in taken:
            raise IllegalExpression(f"{name!r} stands twice", (place,))
        taken.append(name)
    if len({*taken, *workload.constants}) == len(known):
        raise IllegalExpression("every input is constant: nothing is left to compute")
    inputs = (replace(t, constant=t.constant or t.name in taken) for t in workload.inputs)
    return replace(workload, inputs=tuple(inputs))


def _multiplies(result: Workload, dtype: str) -> bool:
    tensors = result.tensors
    return any(
        stage.reducer == "sum"
        and any(isinstance(node, Call) and node.function == "mul" for node in walk(stage.value))
        and any(tensors[read.tensor].dtype == dtype for read in reads(stage.value))
        for stage in result.stages
    )
