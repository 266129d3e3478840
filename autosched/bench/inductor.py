"""A workload as plain torch code, and what torch's own compiler makes of it.

What a user of PyTorch would write: one product or convolution, then elementwise operations on its
result, perhaps a softmax of a product's rows, for the compiler to fuse and tune. Where there are
several ways to write it they come as *forms*, the one to try first at the front. Knows nothing of
our programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from measure.convolution import Convolution, settings
from measure.library import library_forms
from measure.product import Product
from measure.recognise import library_product, softmax_product
from measure.reference import FUNCTIONS
from measure.tensor import TORCH_DTYPES
from measure.whole import Whole, compiled_formula
from measure.windowed import library_convolutions
from search_space.expr import Call, Cast, Const, Expr, Read
from search_space.workload import Stage, Workload, contiguous_strides

MODE = "max-autotune-no-cudagraphs"
#: From the inputs, in order, to a fresh output.
Function = Callable[..., torch.Tensor]


class NoPlainForm(ValueError):
    """A workload that is no product or convolution, with elementwise operations or a softmax."""


@dataclass(frozen=True)
class PlainForm:
    """One way to write a workload: how it forms the product, and what computes it.

    A ``fallback`` is for where none before it is right; all others compete.
    """

    name: str
    function: Function
    fallback: bool = False


def compiled(workload: Workload, function: Function) -> Function:
    """Return a plain form compiled and tuned by torch; compiling happens at the first call.

    Precision is set around each call, compiling included. What was compiled before of other
    workloads is forgotten by ``reset``.
    """
    use_all_cores()
    built = torch.compile(function, mode=MODE, fullgraph=True, dynamic=False)
    hold = _precision if library_product(workload) else settings

    def call(*inputs: torch.Tensor) -> torch.Tensor:
        with hold(workload.precision):
            result: torch.Tensor = built(*inputs)
            return result

    return call


def reset() -> None:
    """Forget what was compiled; its functions compile anew when they are called again."""
    torch._dynamo.reset()


def use_all_cores() -> None:
    """Let the compiler work on every core, unless the user has said on how many."""
    from torch._inductor import config

    if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        config.compile_threads = max(config.compile_threads or 1, len(os.sched_getaffinity(0)))


@contextmanager
def _precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def plain_forms(workload: Workload, device: torch.device) -> tuple[PlainForm, ...]:
    """Return the ways to write ``workload`` as torch operations that allocate their result.

    Raises NoPlainForm.
    """
    if convolutions := _convolutions(workload):
        return tuple(PlainForm(form.name, _convolution(workload, form)) for form in convolutions)
    known = library_product(workload) is not None or softmax_product(workload) is not None
    if not known and (formula := compiled_formula(workload)) is not None:
        return (PlainForm(formula.name, _by_formula(formula)),)
    first, *later = workload.stages
    dtype = workload.tensors[_factors(first)[0].tensor].dtype
    if (scores := softmax_product(workload)) is not None:
        return tuple(
            PlainForm(
                f"{name}, softmax", _softmax(workload, _product(first, multiply), scores), n > 0
            )
            for n, (name, multiply) in enumerate(_wide(workload, scores))
        )
    if len(later) > 1 or any(stage.reducer for stage in later):
        raise NoPlainForm("more than one reduction, and no softmax of rows")
    if dtype == "float8_e4m3":
        return _scaled(workload, first, device)
    multiply = _multiply(dtype, workload.output.dtype, len(first.index) > 2)
    return (PlainForm("product", _elementwise(workload, _product(first, multiply))),)


def _convolutions(workload: Workload) -> tuple[Convolution, ...]:
    """Return the convolutions to compile: in the format as stored, which the compiler may change,
    and converted beforehand; without what only cuDNN's own calls take along."""
    if library_product(workload) is not None:
        return ()
    names = [form.name for form in library_forms(workload)]
    found = [call for form in library_convolutions(workload) for call in form.variants()]
    return tuple(c for c in found if c.by in ("", "linear") and c.name in names)


def _convolution(workload: Workload, form: Convolution) -> Function:
    """Return a convolution and the steps on it, delivered as the workload's output lies."""
    row_major = workload.output.strides == contiguous_strides(workload.output.shape)

    def function(*inputs: torch.Tensor) -> torch.Tensor:
        made = form.compute(inputs)
        return made.contiguous() if row_major else made

    return function


def _by_formula(form: Whole) -> Function:
    def function(*inputs: torch.Tensor) -> torch.Tensor:
        return form.compute(inputs)

    return function


_Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
#: From the tensors by name to the product.
_Form = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]


def _elementwise(workload: Workload, product: _Form) -> Function:
    """Return the product, then the later stages, then one rounding to the output's dtype."""
    first, *later = workload.stages
    names = [tensor.name for tensor in workload.inputs]
    dtype = TORCH_DTYPES[workload.output.dtype]

    def function(*inputs: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, inputs, strict=True))
        values[first.output] = product(values)
        for stage in later:
            values[stage.output] = _value(stage.value, values)
        return values[workload.output.name].to(dtype)

    return function


def _softmax(workload: Workload, product: _Form, scores: Product) -> Function:
    """Return the product, the steps on it, and the softmax of its rows, rounded once."""
    names = [tensor.name for tensor in workload.inputs]
    dtype = TORCH_DTYPES[workload.output.dtype]

    def function(*inputs: torch.Tensor) -> torch.Tensor:
        rows = product(dict(zip(names, inputs, strict=True)))
        rows = scores.finished(inputs, rows)
        return torch.softmax(rows, -1).to(dtype)

    return function


def _scaled(workload: Workload, first: Stage, device: torch.device) -> tuple[PlainForm, ...]:
    """Return products of 8-bit floats: factors and bias in the call, or behind float32 sums."""
    one = torch.ones((), dtype=torch.float32, device=device)
    fast = workload.precision == "fast"
    found = []
    if (product := library_product(workload)) is not None:

        def in_the_call(*inputs: torch.Tensor) -> torch.Tensor:
            a, b = product.a.of(inputs), product.b.of(inputs)
            made = torch._scaled_mm(a, b, **product.scaling(inputs, one))
            return product.finished(inputs, made, product.fused)

        found.append(PlainForm(product.name, in_the_call))

    def wide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast
        )

    by_stages = _elementwise(workload, _product(first, wide))
    return (*found, PlainForm("_scaled_mm(out_dtype=float32)", by_stages, fallback=bool(found)))


def _wide(workload: Workload, scores: Product) -> list[tuple[str, _Multiply]]:
    """Return products whose sums a softmax may take, the most exact that are fast first."""
    if scores.dtype not in ("float16", "bfloat16"):
        multiply = _multiply(scores.dtype, workload.output.dtype, scores.batched)
        return [("product", multiply)]
    float32 = torch.float32

    def flat(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dim() == 2:
            return torch.mm(a, b, out_dtype=float32)
        left, right = (x.reshape(-1, *x.shape[-2:]) for x in (a, b))
        return torch.bmm(left, right, out_dtype=float32).view(*a.shape[:-1], b.shape[-1])

    return [
        (f"{'bmm' if scores.batched else 'mm'}(out_dtype=float32)", flat),
        ("matmul", torch.matmul),
        ("matmul in float32", lambda a, b: torch.matmul(a.to(float32), b.to(float32))),
    ]


def _factors(stage: Stage) -> tuple[Read, Read]:
    """Return the two reads whose products ``stage`` sums; raises NoPlainForm."""
    match stage.value:
        case Call("mul", (Read() as left, Read() as right)) if stage.reducer == "sum":
            return left, right
        case _:
            raise NoPlainForm("the reduction is no sum of products of two tensors")


def _product(stage: Stage, multiply: _Multiply) -> _Form:
    """Return what forms the sum of products of ``stage`` by one call of torch."""
    left, right = _factors(stage)
    a, b, out = (_axes(index) for index in (left.index, right.index, stage.index))
    batch = [axis for axis in out if axis in a and axis in b]
    rows = [axis for axis in a if axis in out and axis not in b]
    columns = [axis for axis in b if axis in out and axis not in a]
    inner = [axis for axis in a if axis not in out]
    if any(len(axes) != 1 for axes in (rows, columns, inner)) or out != [*batch, *rows, *columns]:
        raise NoPlainForm("the product is no (batched) product of matrices")
    order_a = [a.index(axis) for axis in (*batch, *rows, *inner)]
    order_b = [b.index(axis) for axis in (*batch, *inner, *columns)]
    return lambda values: multiply(
        values[left.tensor].permute(order_a), values[right.tensor].permute(order_b)
    )


def _multiply(dtype: str, out_dtype: str, batched: bool) -> _Multiply:
    if dtype == "int8":
        return torch._int_mm
    if dtype == out_dtype:
        return torch.matmul
    product = torch.bmm if batched else torch.mm
    wide = TORCH_DTYPES[out_dtype]
    return lambda a, b: product(a, b, out_dtype=wide)


def _axes(index: Sequence[Any]) -> list[str]:
    axes = [form.single for form in index]
    if None in axes:
        raise NoPlainForm("an index is more than one axis")
    return axes


def _value(expr: Expr, values: Mapping[str, torch.Tensor]) -> Any:
    """Evaluate elementwise operations; inputs of fewer dimensions broadcast from the right."""
    match expr:
        case Read(tensor, _):
            return values[tensor]
        case Const(number):
            return number
        case Cast(dtype, value):
            return _value(value, values).to(TORCH_DTYPES[dtype])
        case Call(function, args):
            return _call(function, [_value(arg, values) for arg in args])


def _call(function: str, args: list[Any]) -> Any:
    if function in ("max", "min") and any(not isinstance(arg, torch.Tensor) for arg in args):
        tensor, bound = sorted(args, key=lambda arg: not isinstance(arg, torch.Tensor))
        return tensor.clamp_min(bound) if function == "max" else tensor.clamp_max(bound)
    return FUNCTIONS[function](*args)
