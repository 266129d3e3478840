"""Workloads from and to text. Evaluates nothing as Python, knows no files.

parse("C[i,j] += A[i,k] * B[k,j]", {"i": 4, "j": 4, "k": 4},
      {"A": Stored((4, 4), "float16"), "B": Stored((4, 4), "float16")}, "relu(C[i,j])")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from autosched.te import printer
from autosched.te.declared import with_constants, with_precision
from autosched.te.error import IllegalExpression
from autosched.te.form import Form, Output, Stored
from autosched.te.layout import default_store, stored
from autosched.te.lower import element_axes, workload
from autosched.te.name import fresh_name
from autosched.te.parser import REDUCERS, Parser, Statement
from autosched.te.position import Position, axis_position, new_axis
from autosched.te.reduction import reduction
from autosched.te.scatter import least_shape, place, scatter
from autosched.te.tensor import Computed, Placeholder, Source, define, placeholder
from search_space.expr import Affine, Cast
from search_space.workload import Axis, Precision, Workload


def parse(
    expr: str,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Stored],
    epilogue: str | None = None,
    *,
    output: Output | None = None,
    precision: Precision = "ieee",
) -> Workload:
    """Read a computation; raises IllegalExpression with the argument and the character meant.

    Inputs come in the order in which they are read, whatever the order of ``inputs``. Statements
    are ``T[i] = value``, ``T[i] += value`` or ``T[i] max= value``, joined by ";"; axes that
    are not on the left are reduced over.
    """
    return read(Form(expr, sizes, inputs, epilogue, output or Output(), precision))


def read(form: Form) -> Workload:
    """Return the workload that ``form`` states; raises IllegalExpression as ``parse``."""
    for name, extent in form.sizes.items():
        with _within("sizes", name):
            new_axis(name, extent, "spatial")
    tensors: dict[str, Source] = {}
    for name, how in form.inputs.items():
        tensors[name] = _input(name, how, form)
    parser = Parser(form.expr, ("expr",), form.sizes, tensors)
    while True:
        statement = parser.statement()
        computed = _define(statement, form.output.shape)
        tensors[statement.name] = computed
        if parser.at_end():
            break
    result = _output(form, tensors, computed, parser.used)
    if form.output.shape not in (None, result.shape):
        raise IllegalExpression(
            f"{result.name!r} has the shape {list(result.shape)} by its left side",
            ("output", "shape"),
        )
    _refuse_unused(form, result, tensors, parser.used)
    with _within("output"):
        lowered = workload(
            result,
            dtype=form.output.dtype or _default_dtype(result),
            label=" ".join(form.expr.split())[:60],
        )
        lowered = stored(
            lowered,
            result.name,
            strides=form.output.strides,
            alignment_bytes=form.output.alignment_bytes,
        )
    constant = [name for name, how in form.inputs.items() if how.constant]
    with _within("inputs", *constant[-1:], "constant"):
        lowered = with_constants(lowered, constant) if constant else lowered
    return with_precision(lowered, form.precision)


def _input(name: str, how: Stored, form: Form) -> Placeholder:
    if name in form.sizes:
        raise IllegalExpression(f"{name!r} is an axis too, rename one", ("inputs", name))
    with _within("inputs", name):
        return placeholder(how.shape, name, how.dtype, how.strides, how.alignment_bytes)


def _define(statement: Statement, shape: tuple[int, ...] | None) -> Computed:
    """Return the tensor of a statement; one at affine positions has ``shape`` if that is given."""
    name, body, reducer = statement.name, statement.body, REDUCERS[statement.sign]
    with _within("expr", offset=statement.offset):
        if statement.places is not None:
            index = tuple(_position(form, statement.axes) for form in statement.places)
            extents = shape or least_shape(statement.places, statement.axes)
            return (scatter if reducer else place)(extents, index, body, name)
        if reducer is None:
            return define(name, statement.axes, body)
        reduced = [axis for axis in body.axes if axis.kind == "reduction"]
        if not reduced:
            raise IllegalExpression(
                f"every axis is on the left, so there is nothing for {statement.sign} to reduce"
            )
        places = [axis_position(axis) for axis in reduced]
        return define(name, statement.axes, reduction(reducer, body, places))


def _position(form: Affine, axes: tuple[Axis, ...]) -> Position:
    return Position(form, tuple(axis for axis in axes if axis.name in form.axes))


def _element_axes(form: Form, result: Computed, used: set[str]) -> tuple[Axis, ...]:
    """Return the axes of an epilogue: those on the left; for each affine position there an axis
    of its own, which nothing but the epilogue uses, in the order of ``sizes``."""
    if result.places is None:
        return result.axes
    own = {axis.name for axis in result.axes}
    free = [Axis(n, e, "spatial") for n, e in form.sizes.items() if n not in used]
    axes = []
    for number, axis in enumerate(element_axes(result)):
        if axis.name in own:
            axes.append(axis)
            continue
        fitting = [one for one in free if one.extent == axis.extent]
        if not fitting:
            raise IllegalExpression(
                f"the epilogue of {result.name!r} needs an axis of extent {axis.extent} in sizes, "
                f"which nothing else uses, for dimension {number}",
                ("epilogue",),
            )
        axes.append(fitting[0])
        free.remove(fitting[0])
    return tuple(axes)


def _output(
    form: Form, tensors: Mapping[str, Source], result: Computed, used: set[str]
) -> Computed:
    """Apply the epilogue, if there is one, to ``result``, which then goes by another name."""
    if form.epilogue is None:
        return result
    axes = _element_axes(form, result, used)
    used |= {axis.name for axis in axes}
    taken = frozenset((*tensors, *form.sizes))
    before = replace(result, name=fresh_name("acc", taken))
    scope = {**tensors, result.name: before}
    parser = Parser(form.epilogue, ("epilogue",), form.sizes, scope, left=axes, used=used)
    body = parser.value()
    parser.end()
    with _within("epilogue"):
        if before.name not in (body.tensors or {}):
            raise IllegalExpression(f"{result.name!r} is not read")
        return define(result.name, axes, body)


def _refuse_unused(
    form: Form, result: Computed, tensors: dict[str, Source], used: set[str]
) -> None:
    for name in form.sizes:
        if name not in used:
            raise IllegalExpression(f"axis {name!r} is not used", ("sizes", name))
    reached = _reached(result)
    for name in tensors:
        if name not in reached:
            path = ("inputs", name) if name in form.inputs else ("expr",)
            raise IllegalExpression(f"{name!r} is not read", path)


def _reached(tensor: Computed) -> set[str]:
    """Names of ``tensor`` and of all that it is made of."""
    names = {tensor.name}
    for name, source in (tensor.value.tensors or {}).items():
        names |= _reached(source) if isinstance(source, Computed) else {name}
    return names


def _default_dtype(result: Computed) -> str | None:
    """Return the default dtype of the output: an outermost cast's (None), else that of the
    inputs that the first reduction reads, if they agree, else what the value is computed in."""
    if isinstance(result.value.expr, Cast) and result.reducer is None:
        return None
    sources = tuple((result.value.tensors or {}).values())
    while inner := [source for source in sources if isinstance(source, Computed)]:
        sources = tuple((inner[0].value.tensors or {}).values())
    dtypes = {s.tensor.dtype for s in sources if isinstance(s, Placeholder)}
    return default_store(dtypes.pop()) if len(dtypes) == 1 else None


@contextmanager
def _within(*path: str, offset: int | None = None) -> Iterator[None]:
    """Say in errors which argument is meant."""
    try:
        yield
    except IllegalExpression as error:
        if error.offset is not None:
            raise
        raise IllegalExpression(error.fact, (*path, *error.path), offset) from error


def format(workload: Workload) -> str:
    """Return the text form of ``workload`` as the lines of a spec; IllegalExpression if none.

    Reading it again gives an equal canonical text, hence an equal key.
    """
    return printer.block(printer.form(workload))
