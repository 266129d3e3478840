"""From a computed tensor to a workload: elementwise ones inlined, reductions kept as stages.

Knows nothing of texts or operators; the axes it orders, the inputs it collects.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autosched.te.declared import with_precision
from autosched.te.error import IllegalExpression
from autosched.te.layout import check_layout
from autosched.te.name import fresh_name
from autosched.te.position import merge_axes
from autosched.te.scatter import check_places, elsewhere, gather, reaches_all
from autosched.te.tensor import Computed, Placeholder, Source
from autosched.te.value import Value, check_dtype
from search_space.dtype import DTYPES
from search_space.expr import Affine, Cast, Expr, Read, reads, rewrite, walk
from search_space.workload import Axis, Precision, Stage, Tensor, Workload


@dataclass
class _Lowering:
    """What has been found so far, in the order in which it must run."""

    stages: dict[str, Stage] = field(default_factory=dict)
    intermediates: dict[str, Tensor] = field(default_factory=dict)
    #: Which axes each reduced tensor runs over in this workload.
    over: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tensors: dict[str, Source] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    #: Reduction axes of the stage being found that run along an axis known already.
    renamed: dict[str, str] = field(default_factory=dict)
    #: Sums whose left side is affine, by name.
    scattered: dict[str, Computed] = field(default_factory=dict)


def workload(
    output: Computed,
    *,
    precision: Precision = "ieee",
    dtype: str | None = None,
    label: str = "",
) -> Workload:
    """Return the workload that computes ``output``; its inputs in the order they are read.

    The output is stored in ``dtype``; by default in that of an outermost ``cast``, else in the
    dtype it is computed in. ``precision`` says how products of float32 are formed: "tf32" is
    refused where there are none. Raises IllegalExpression.
    """
    body = _without_reduction(output)
    expr, stored_dtype = _stored(body.value, dtype)
    lowering = _Lowering(axes={axis.name: axis for axis in body.axes})
    expr = _resolve(expr, body.value, lowering, {})
    index = body.places or tuple(Affine.axis(axis.name) for axis in body.axes)
    stages = (*lowering.stages.values(), Stage(body.name, index, expr))
    spatial = body.axes
    if lowering.scattered:
        stages, spatial = _gathered(stages, body, lowering)
    inputs = _inputs(stages, lowering)
    result = Workload(
        axes=(*spatial, *_reduction_axes(stages, spatial, lowering)),
        inputs=inputs,
        intermediates=tuple(lowering.intermediates.values()),
        output=Tensor(body.name, body.shape, stored_dtype),
        stages=stages,
        label=label,
    )
    _check(result)
    return with_precision(_with_elsewhere(result), precision)


def _without_reduction(output: Computed) -> Computed:
    """Keep the accumulator apart: an output that reduces becomes a copy of what it reduced."""
    if output.reducer is None:
        return output
    taken = frozenset({output.name, *_names(output.value)})
    accumulator = replace(output, name=fresh_name("acc", taken))
    axes = element_axes(output)
    forms = tuple(Affine.axis(axis.name) for axis in axes)
    read = Value(
        Read(accumulator.name, forms), output.value.dtype, axes, {accumulator.name: accumulator}
    )
    return Computed(output.name, axes, read)


def element_axes(tensor: Computed) -> tuple[Axis, ...]:
    """Return an axis for each dimension of ``tensor``: its own, where its left side is plain."""
    if tensor.places is None:
        return tensor.axes
    taken, axes = {tensor.name, *_names(tensor.value), *(a.name for a in tensor.axes)}, []
    extents = {axis.name: axis.extent for axis in tensor.axes}
    for number, (form, extent) in enumerate(zip(tensor.places, tensor.extents, strict=True)):
        own = form.single is not None and extents[form.single] == extent
        name = form.single if own and form.single else fresh_name(f"e{number}", frozenset(taken))
        axes.append(Axis(name, extent, "spatial"))
        taken.add(name)
    return tuple(axes)


def _names(value: Value) -> set[str]:
    """Names of axes and tensors that occur in ``value`` or in what it reads."""
    names = {axis.name for axis in value.axes}
    for name, tensor in (value.tensors or {}).items():
        names.add(name)
        if isinstance(tensor, Computed):
            names |= _names(tensor.value)
    return names


def _stored(value: Value, dtype: str | None) -> tuple[Expr, str]:
    """Take an outermost cast as the rounding of the store."""
    expr = value.expr
    if dtype is None:
        dtype = expr.dtype if isinstance(expr, Cast) else value.dtype or "float32"
    while isinstance(expr, Cast) and expr.dtype == dtype:
        expr = expr.value
    return expr, check_dtype(dtype)


def _resolve(expr: Expr, value: Value, lowering: _Lowering, axes: dict[str, Affine]) -> Expr:
    """Rename the axes of ``expr`` and replace what it reads by what that is made of."""

    def change(node: Expr) -> Expr:
        if not isinstance(node, Read):
            return node
        index = tuple(form.substitute(axes) for form in node.index)
        tensor = (value.tensors or {})[node.tensor]
        _claim(tensor, lowering)
        if isinstance(tensor, Placeholder):
            return Read(node.tensor, index)
        if tensor.places is not None and tensor.reducer is None:
            raise IllegalExpression(
                f"{tensor.name!r} is written at affine positions with '=': nothing may read it"
            )
        if tensor.reducer is None:
            inner = dict(zip((a.name for a in tensor.axes), index, strict=True))
            return _resolve(tensor.value.expr, tensor.value, lowering, inner)
        return Read(tensor.name, _reduce(tensor, index, lowering))

    for node in sorted(reads(expr), key=lambda node: -len(node.index)):
        # A sum read whole comes before what is reduced from it: see _reduce.
        change(node)
    return rewrite(expr, change)


def _claim(tensor: Source, lowering: _Lowering) -> None:
    if lowering.tensors.setdefault(tensor.name, tensor) is not tensor:
        raise IllegalExpression(f"two tensors are called {tensor.name!r}, rename one")


def _reduce(tensor: Computed, index: tuple[Affine, ...], lowering: _Lowering) -> tuple[Affine, ...]:
    """Add the stage of a reduced tensor, run over the axes at which it is read; return those.

    What is reduced again from it, as a row's maximum is, runs over its axes: a reduction axis
    that stands where the tensor has an axis already is that axis within its stage.
    """
    names = tuple(form.single or "" for form in index)
    if "" in names or len(set(names)) != len(names):
        raise IllegalExpression(f"{tensor.name!r} is reduced: it is read at distinct plain axes")
    known = lowering.over.setdefault(tensor.name, names)
    if known != names:
        _rename(tensor, names, known, lowering)
    if tensor.name in lowering.stages:
        return tuple(map(Affine.axis, known))
    if tensor.places is not None:
        return _scatter(tensor, index, lowering)
    for axis in tensor.reduced:
        if axis.name in names:
            raise IllegalExpression(f"axis name {axis.name!r} has two meanings, rename one")
    added = tuple(axis for axis in tensor.reduced if not _is_known(axis, lowering))
    for axis in merge_axes((tuple(lowering.axes.values()), added)):
        lowering.axes[axis.name] = axis
    forms = dict(zip((a.name for a in tensor.axes), index, strict=True))
    value = _resolve(tensor.value.expr, tensor.value, lowering, forms)
    value, reduced = _renamed(value, tensor, index, lowering)
    occurring = {n for read in reads(value) for form in read.index for n in form.axes}
    for name in reduced:
        if name not in occurring:
            raise IllegalExpression(
                f"axis {name!r} of {tensor.name!r} does not occur in what is reduced"
            )
    lowering.intermediates[tensor.name] = Tensor(tensor.name, tensor.shape, tensor.dtype)
    lowering.stages[tensor.name] = Stage(tensor.name, index, value, tensor.reducer)
    return index


def _scatter(
    tensor: Computed, index: tuple[Affine, ...], lowering: _Lowering
) -> tuple[Affine, ...]:
    """Add the stage of a sum whose left side is affine, over axes of its own."""
    if lowering.stages or lowering.scattered:
        raise IllegalExpression(f"{tensor.name!r}, written at affine positions, is the only sum")
    lowering.scattered[tensor.name] = tensor
    body = _resolve(tensor.value.expr, tensor.value, lowering, {})
    if lowering.stages:
        raise IllegalExpression(f"{tensor.name!r}, written at affine positions, reads inputs alone")
    lowering.stages[tensor.name] = Stage(tensor.name, tensor.places or (), body, "sum")
    return index


def _gathered(
    stages: tuple[Stage, ...], body: Computed, lowering: _Lowering
) -> tuple[tuple[Stage, ...], tuple[Axis, ...]]:
    """Turn the scattered sum into a gathered one, and store it where its points belong."""
    (tensor,) = lowering.scattered.values()
    first, last = stages[0], stages[-1]
    elements = lowering.over[tensor.name]
    if len(stages) != 2 or body.places is not None or len(elements) != len(body.axes):
        raise IllegalExpression(
            f"{tensor.name!r}, written at affine positions, is read once, element by element"
        )
    own = {axis.name: axis.extent for axis in (*tensor.axes, *tensor.reduced)}
    found = gather(tensor, first, elements, own)
    at = dict(zip(elements, found.places, strict=True))
    # The dimensions of the output may be those of the sum in another order.
    index = tuple(at[axis.name] for axis in body.axes)
    points = found.stage.index

    def change(node: Expr) -> Expr:
        if not isinstance(node, Read):
            return node
        if node.tensor == tensor.name:
            return Read(node.tensor, points)
        return Read(node.tensor, tuple(form.substitute(at) for form in node.index))

    store = replace(last, index=index, value=rewrite(last.value, change))
    axes = merge_axes([found.axes, tensor.reduced, found.reduced])
    lowering.axes = {axis.name: axis for axis in axes}
    accumulator = tuple(axis.extent for axis in found.axes)
    lowering.intermediates[tensor.name] = Tensor(tensor.name, accumulator, tensor.dtype)
    spatial = [a for form in index for a in found.axes if a.name in form.axes]
    return (found.stage, store), tuple(spatial)


def _with_elsewhere(result: Workload) -> Workload:
    index, extents = result.stages[-1].index, result.extents
    check_places(result.output.name, index, extents)
    if reaches_all(index, result.output.shape, extents):
        return result
    return replace(result, elsewhere=elsewhere(result))


def _is_known(axis: Axis, lowering: _Lowering) -> bool:
    """Whether an axis that is reduced is one that the output runs over, of the same extent."""
    known = lowering.axes.get(axis.name)
    return known is not None and known.kind == "spatial" and known.extent == axis.extent


def _rename(
    tensor: Computed, names: tuple[str, ...], known: tuple[str, ...], lowering: _Lowering
) -> None:
    """Note that reduction axes among ``names`` stand for those at which ``tensor`` is known."""
    for name, other in zip(names, known, strict=True):
        one, two = lowering.axes[name], lowering.axes[other]
        if name != other and (one.kind != "reduction" or one.extent != two.extent):
            raise IllegalExpression(
                f"{tensor.name!r} is reduced and read twice, at axes "
                f"{', '.join(known)} and {', '.join(names)}"
            )
        if name != other:
            lowering.renamed[name] = other


def _renamed(
    value: Expr, tensor: Computed, index: tuple[Affine, ...], lowering: _Lowering
) -> tuple[Expr, tuple[str, ...]]:
    """Apply the renamings of a stage's reduction axes; return its value and those axes."""
    mine = {a.name: lowering.renamed.pop(a.name, a.name) for a in tensor.reduced}
    changed = {old: new for old, new in mine.items() if old != new}
    for old, new in changed.items():
        if any(new in form.axes for form in index):
            raise IllegalExpression(f"axis {old!r} would run along {new!r}, which is not reduced")
        del lowering.axes[old]
    forms = {old: Affine.axis(new) for old, new in changed.items()}

    def change(node: Expr) -> Expr:
        if isinstance(node, Read):
            return Read(node.tensor, tuple(form.substitute(forms) for form in node.index))
        return node

    return rewrite(value, change), tuple(mine.values())


def _inputs(stages: tuple[Stage, ...], lowering: _Lowering) -> tuple[Tensor, ...]:
    names = dict.fromkeys(read.tensor for stage in stages for read in reads(stage.value))
    found = (lowering.tensors[name] for name in names)
    return tuple(tensor.tensor for tensor in found if isinstance(tensor, Placeholder))


def _reduction_axes(
    stages: tuple[Stage, ...], spatial: tuple[Axis, ...], lowering: _Lowering
) -> tuple[Axis, ...]:
    """Order the reduction axes by where they first occur, whatever they are called.

    Two that first occur in one form go by their coefficients there, the larger first, then by the
    forms that follow; two that agree everywhere are alike but for their extents.
    """
    forms = [f for s in stages for f in (*s.index, *(f for r in reads(s.value) for f in r.index))]
    terms = [dict(form.terms) for form in forms]

    def occurrence(axis: Axis) -> tuple[list[tuple[bool, int]], int]:
        here = [term.get(axis.name, 0) for term in terms]
        return [(c == 0, -c) for c in here], axis.extent

    rest = [axis for axis in lowering.axes.values() if axis not in spatial]
    return tuple(sorted(rest, key=occurrence))


def _check(result: Workload) -> None:
    """Refuse what no kernel could mean; raises IllegalExpression."""
    names = [*(axis.name for axis in result.axes), *(t.name for t in _all_tensors(result))]
    for name in names:
        if names.count(name) > 1:
            raise IllegalExpression(f"{name!r} names two things, rename one")
    if not result.inputs:
        raise IllegalExpression(f"{result.output.name!r} reads no input")
    try:
        check_layout(result.output, written=True)
    except IllegalExpression as error:
        raise IllegalExpression(error.fact) from error
    _check_store(result)


def _all_tensors(result: Workload) -> tuple[Tensor, ...]:
    return (*result.inputs, *result.intermediates, result.output)


def _check_store(result: Workload) -> None:
    """Only roundings that need no further word: to a float, or of an int32 to itself."""
    stored = result.output.dtype
    if DTYPES[stored].kind == "float" or (stored == "int32" and _computed_as_int(result)):
        return
    raise IllegalExpression(
        f"{result.output.name!r} is stored as {stored}: only integers are, and only as int32",
        ("dtype",),
    )


def _computed_as_int(result: Workload) -> bool:
    tensors = result.tensors
    last = result.stages[-1].value
    casts = [node.dtype for node in walk(last) if isinstance(node, Cast)]
    dtypes = [*casts, *(tensors[read.tensor].dtype for read in reads(last))]
    return all(DTYPES[dtype].kind == "int" for dtype in dtypes)
