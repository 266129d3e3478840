"""Named operators built from tensor expressions. Below this module nothing knows their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autosched.te import epilogue, function, lower, reduction
from autosched.te.declared import with_precision
from autosched.te.epilogue import ELEMENTWISE
from autosched.te.error import IllegalExpression
from autosched.te.layout import default_store
from autosched.te.operand import check_dtypes, with_constants
from autosched.te.position import Position, axis_position, new_axis, reduce_axis
from autosched.te.reduction import sum
from autosched.te.tensor import define, placeholder
from autosched.te.value import Value
from search_space.workload import Axis, AxisKind, Precision, Workload

#: Epilogues with an input: added in the dtype of C, or multiplied in float32.
ADDED = ("bias", "residual")
MULTIPLIED = ("scale_a", "scale_b", "row_scale", "column_scale")
EPILOGUES = (*ADDED, *MULTIPLIED, *ELEMENTWISE, "scale:FACTOR", "softmax")
#: What arguments call the operands, and workloads do.
OPERANDS = {"a": "A", "b": "B"}


def matmul(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str,
    out_dtype: str | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    precision: Precision = "ieee",
    epilogue: Sequence[str] = (),
    constant: Sequence[str] = (),
) -> Workload:
    """Return the product ``C[m, n]`` of ``A[m, k]`` and ``B[k, n]``, then the epilogue in order.

    A is stored [k, m] if ``trans_a``, B [n, k] if ``trans_b``. Sums are kept in float32 (int32
    for int8). Epilogues: ``bias`` (an input [n]), ``residual`` (an input [m, n]), ``relu``,
    ``gelu`` (exact), ``gelu_tanh``, ``silu``, ``scale:FACTOR``, and factors that are float32
    inputs: ``scale_a`` and ``scale_b`` ([1]: of a whole operand), ``row_scale`` ([m]) and
    ``column_scale`` ([n]); and ``softmax`` along n. Bias and residual have the dtype of C; inputs
    follow A and B in the order of the epilogue. ``out_dtype`` defaults to ``dtype`` (for
    float8_e4m3 to bfloat16, for int8 to int32). ``constant`` names inputs that stay the same from
    call to call, as weights do: ``a``, ``b``, or one of the epilogue. Raises IllegalExpression,
    its ``path`` the argument meant.
    """
    how = _Product(dtype, out_dtype, trans_a, trans_b, precision, tuple(epilogue), tuple(constant))
    return how.workload((), m, n, k)


def batch_matmul(
    batch: int,
    m: int,
    n: int,
    k: int,
    *,
    dtype: str,
    out_dtype: str | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    precision: Precision = "ieee",
    epilogue: Sequence[str] = (),
    constant: Sequence[str] = (),
) -> Workload:
    """Return ``batch`` products side by side: ``matmul`` with a leading dimension everywhere.

    A residual is [batch, m, n]; a bias is [n], the same for the whole batch.
    """
    how = _Product(dtype, out_dtype, trans_a, trans_b, precision, tuple(epilogue), tuple(constant))
    return how.workload((_axis("batch", "b", batch),), m, n, k)


@dataclass(frozen=True)
class _Product:
    """All of a matmul but its extents."""

    dtype: str
    out_dtype: str | None
    trans_a: bool
    trans_b: bool
    precision: Precision
    epilogue: tuple[str, ...]
    constant: tuple[str, ...] = ()

    def workload(self, batch: tuple[Axis, ...], m: int, n: int, k: int) -> Workload:
        check_dtypes(self.dtype, self.stored)
        axes = (*batch, _axis("m", "i", m), _axis("n", "j", n))
        *b, i, j = map(axis_position, axes)
        inner = axis_position(_axis("k", "k", k, "reduction"))
        a = _read_input("A", self.dtype, (*b, inner, i) if self.trans_a else (*b, i, inner))
        other = _read_input("B", self.dtype, (*b, j, inner) if self.trans_b else (*b, inner, j))
        accumulated = define("acc", axes, sum(a * other, axis=inner))
        index = (*b, i, j)
        join = partial(_joined, index=index, dtype=self.stored)
        result = epilogue.apply(self.epilogue, accumulated[index], join, EPILOGUES)
        label = self._label(batch, m, n, k)
        try:
            built = lower.workload(define("C", axes, result), dtype=self.stored, label=label)
        except IllegalExpression as error:
            path = ("out_dtype",) if error.path == ("dtype",) else error.path
            raise IllegalExpression(error.fact, path) from error
        return with_constants(with_precision(built, self.precision), OPERANDS, self.constant)

    @property
    def stored(self) -> str:
        """The dtype of C."""
        return default_store(self.dtype) if self.out_dtype is None else self.out_dtype

    def _label(self, batch: tuple[Axis, ...], m: int, n: int, k: int) -> str:
        sizes = "x".join(str(extent) for extent in (*(a.extent for a in batch), m, n, k))
        layout = "nt"[self.trans_a] + "nt"[self.trans_b]
        stored = [self.stored] * (self.stored != default_store(self.dtype))
        precision = [self.precision] * (self.dtype == "float32")
        name = "batch_matmul" if batch else "matmul"
        constant = [f"constant={'+'.join(self.constant)}"] * bool(self.constant)
        words = (name, sizes, self.dtype, *stored, layout, *precision, *self.epilogue, *constant)
        return " ".join(words)


def _joined(
    word: str, name: str, result: Value, *, index: tuple[Position, ...], dtype: str
) -> Value | None:
    """Return what an epilogue of matmul's own makes of ``result``, read at ``index``."""
    if word in (*ADDED, *MULTIPLIED):
        return _join_input(word, name, result, index, dtype)
    return _softmax(result, index) if word == "softmax" else None


def _softmax(value: Value, index: tuple[Position, ...]) -> Value:
    """Divide the exponentials of each row by their sum, the row's maximum taken off first."""
    axes = tuple(position.axes[0] for position in index)
    whole, rows = define("logits", axes, value), index[:-1]
    inner = [reduce_axis(axes[-1].extent, name) for name in ("along", "beside")]
    most = define("row_max", axes[:-1], reduction.max(whole[(*rows, inner[0])], axis=inner[0]))
    terms = function.exp(whole[(*rows, inner[1])] - most[rows])
    total = define("row_sum", axes[:-1], sum(terms, axis=inner[1]))
    return function.exp(whole[index] - most[rows]) / total[rows]


def _join_input(
    word: str, name: str, result: Value, index: tuple[Position, ...], dtype: str
) -> Value:
    """Add or multiply by an input of the epilogue called ``word``."""
    if word == "bias":
        return result + _read_input(name, dtype, index[-1:])
    if word == "residual":
        return result + _read_input(name, dtype, index)
    if word in ("scale_a", "scale_b"):
        return result * placeholder((1,), name, "float32")[0]
    where = index[-2:-1] if word == "row_scale" else index[-1:]
    return result * _read_input(name, "float32", where)


def _read_input(name: str, dtype: str, index: tuple[Position, ...]) -> Value:
    shape = tuple(position.axes[0].extent for position in index)
    try:
        return placeholder(shape, name, dtype)[index]
    except IllegalExpression as error:
        raise IllegalExpression(error.fact) from error


def _axis(argument: str, name: str, extent: int, kind: AxisKind = "spatial") -> Axis:
    try:
        return new_axis(name, extent, kind)
    except IllegalExpression as error:
        fact = error.fact.replace(f"axis {name!r}", argument)
        raise IllegalExpression(fact, (argument,)) from error
