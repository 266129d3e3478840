"""Forms and texts of workloads. Knows how trees are written, not how they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autosched.te.error import IllegalExpression
from autosched.te.form import Form, Output, Stored
from autosched.te.parser import REDUCERS
from search_space.expr import Affine, Call, Cast, Const, Expr, Read, derived, reads, rewrite
from search_space.workload import Stage, Tensor, Workload

_SIGNS = {reducer: sign for sign, reducer in REDUCERS.items()}
#: How tightly infix functions bind, and their sign.
_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}


def form(workload: Workload) -> Form:
    """Return the fields of a spec that states ``workload``; raises IllegalExpression if none."""
    statements, epilogue = _statements(workload)
    output = workload.output
    return Form(
        expr="; ".join(statements),
        sizes=workload.extents,
        inputs={t.name: Stored(t.shape, t.dtype, *_layout(t), t.constant) for t in workload.inputs},
        epilogue=epilogue,
        output=Output(output.dtype, *_layout(output), _said_shape(workload)),
        precision=workload.precision,
    )


def block(form: Form) -> str:
    """Return ``form`` as the lines that stand under ``workload:`` in a spec."""
    lines = [f"expr: {form.expr}", f"sizes: {_flow(form.sizes)}"]
    inputs = {name: _flow(_stored(how)) for name, how in form.inputs.items()}
    lines.append(f"inputs: {_flow(inputs)}")
    if form.epilogue is not None:
        lines.append(f'epilogue: "{form.epilogue}"')
    lines.append(f"output: {_flow(_stored(form.output))}")
    if form.precision != "ieee":
        lines.append(f"precision: {form.precision}")
    return "\n".join(lines) + "\n"


def expression(expr: Expr, loosest: int = 0, *, read: Callable[[Read], str] | None = None) -> str:
    """Return ``expr`` infix; in parentheses if it binds less tightly than ``loosest``.

    ``read`` writes the reads; by default with positions as ``affine`` writes them.
    """

    def write(expr: Expr, loosest: int = 0) -> str:
        known = derived(expr)
        if known is not None:
            return f"{known[0]}({write(known[1])})"
        match expr:
            case Read(tensor, index):
                return read(expr) if read else f"{tensor}[{','.join(map(affine, index))}]"
            case Const(number):
                return repr(float(number)).removesuffix(".0")
            case Cast(dtype, inner):
                return f"{dtype}({write(inner)})"
            case Call(function, (left, right)) if function in _INFIX:
                sign, tightness = _INFIX[function]
                # Chains lean left, so the right operand binds tighter than its sign.
                text = f"{write(left, tightness)} {sign} {write(right, tightness + 1)}"
                return f"({text})" if tightness < loosest else text
            case Call(function, args):
                return f"{function}({', '.join(write(arg) for arg in args)})"

    return write(expr, loosest)


def affine(place: Affine) -> str:
    """Return an index such as ``2*y+r-1``."""
    parts = [_term(name, coefficient) for name, coefficient in place.terms]
    if place.constant or not parts:
        parts.append(f"{place.constant:+}")
    return "".join(parts).removeprefix("+")


def _term(name: str, coefficient: int) -> str:
    if abs(coefficient) == 1:
        return f"{'+' if coefficient > 0 else '-'}{name}"
    return f"{coefficient:+}*{name}"


def _statements(workload: Workload) -> tuple[list[str], str | None]:
    """Write an accumulator and its output as one statement and an epilogue where they are so."""
    *before, last = workload.stages
    if last.reducer is not None:
        raise IllegalExpression(f"{last.output!r} is reduced without an accumulator")
    if len(before) == 1 and before[0].index == last.index and before[0].reducer:
        accumulator = before[0].output
        if _reads_at(last, accumulator) == {last.index}:
            renamed = _renamed(last.value, accumulator, last.output)
            plain = renamed == Read(last.output, last.index)
            statement = _statement(workload, before[0], last.output)
            return [statement], None if plain else expression(renamed)
    return [_statement(workload, stage, stage.output) for stage in workload.stages], None


def _statement(workload: Workload, stage: Stage, name: str) -> str:
    left = f"{name}[{','.join(affine(place) for place in stage.index)}]"
    value = expression(stage.value, read=lambda read: _read(workload, read))
    return f"{left} {_SIGNS[stage.reducer]} {value}"


def _read(workload: Workload, read: Read) -> str:
    """Write a read; a position that leaves its dimension without an offset gets one of 0."""
    shape, places = workload.tensors[read.tensor].shape, []
    for form, extent in zip(read.index, shape, strict=True):
        low, high = form.bounds(workload.extents)
        other = low < 0 or high >= extent or (form.single is not None and high != extent - 1)
        places.append(affine(form) + "+0" * (other and bool(form.axes) and not form.constant))
    return f"{read.tensor}[{','.join(places)}]"


def _said_shape(workload: Workload) -> tuple[int, ...] | None:
    """Return the shape of the output if its left side does not say it."""
    last, extents = workload.stages[-1], workload.extents
    plain = all(
        form.single is not None and extents[form.single] == extent
        for form, extent in zip(last.index, workload.output.shape, strict=True)
    )
    return None if plain else workload.output.shape


def _reads_at(stage: Stage, tensor: str) -> set[tuple[Affine, ...]]:
    return {read.index for read in reads(stage.value) if read.tensor == tensor}


def _renamed(value: Expr, old: str, new: str) -> Expr:
    def change(node: Expr) -> Expr:
        return Read(new, node.index) if isinstance(node, Read) and node.tensor == old else node

    return rewrite(value, change)


def _layout(tensor: Tensor) -> tuple[tuple[int, ...] | None, int]:
    plain = Tensor(tensor.name, tensor.shape, tensor.dtype).strides == tensor.strides
    return None if plain else tensor.strides, tensor.alignment_bytes


def _stored(how: Stored | Output) -> dict[str, object]:
    fields: dict[str, object] = {}
    if how.shape is not None:
        fields["shape"] = list(how.shape)
    if how.dtype is not None:
        fields["dtype"] = how.dtype
    if how.strides is not None:
        fields["strides"] = list(how.strides)
    if how.alignment_bytes != 16:
        fields["alignment_bytes"] = how.alignment_bytes
    if isinstance(how, Stored) and how.constant:
        fields["constant"] = "true"
    return fields


def _flow(fields: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {held}" for name, held in fields.items()) + "}"
