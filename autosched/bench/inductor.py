"""A workload as plain torch code, and what torch's own compiler makes of it.

What a user of PyTorch would write: one product, then elementwise operations on its result, for
the compiler to fuse and tune. Knows nothing of our programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from measure.reference import FUNCTIONS
from measure.tensor import TORCH_DTYPES
from search_space.expr import Call, Cast, Const, Expr, Read
from search_space.workload import Stage, Workload

MODE = "max-autotune-no-cudagraphs"
#: From the inputs, in order, to a fresh output.
Function = Callable[..., torch.Tensor]


class NoPlainForm(ValueError):
    """A workload that is not one product with elementwise operations on it."""


def compiled(workload: Workload) -> Function:
    """Return the plain form compiled and tuned by torch; compiling happens at the first call.

    Raises NoPlainForm. Precision is set around each call, compiling included.
    """
    torch._dynamo.reset()
    function = torch.compile(plain(workload), mode=MODE, fullgraph=True, dynamic=False)
    mode = "high" if workload.precision == "tf32" else "highest"

    def call(*inputs: torch.Tensor) -> torch.Tensor:
        with _precision(mode):
            result: torch.Tensor = function(*inputs)
            return result

    return call


@contextmanager
def _precision(mode: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(mode)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def plain(workload: Workload) -> Function:
    """Return ``workload`` as torch operations that allocate their result; raises NoPlainForm."""
    first, *later = workload.stages
    names = [tensor.name for tensor in workload.inputs]
    multiply = _product(workload, first)
    dtype = TORCH_DTYPES[workload.output.dtype]
    if len(later) > 1 or any(stage.reducer for stage in later):
        raise NoPlainForm("more than one reduction")

    def function(*inputs: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, inputs, strict=True))
        values[first.output] = multiply(values)
        for stage in later:
            values[stage.output] = _value(stage.value, values)
        return values[workload.output.name].to(dtype)

    return function


def _product(workload: Workload, stage: Stage) -> Callable[[Mapping[str, torch.Tensor]], Any]:
    """Return what forms the sum of products of ``stage`` by one call of torch."""
    match stage.value:
        case Call("mul", (Read() as left, Read() as right)) if stage.reducer == "sum":
            pass
        case _:
            raise NoPlainForm("the reduction is no sum of products of two tensors")
    a, b, out = (_axes(index) for index in (left.index, right.index, stage.index))
    batch = [axis for axis in out if axis in a and axis in b]
    rows = [axis for axis in a if axis in out and axis not in b]
    columns = [axis for axis in b if axis in out and axis not in a]
    inner = [axis for axis in a if axis not in out]
    if any(len(axes) != 1 for axes in (rows, columns, inner)) or out != [*batch, *rows, *columns]:
        raise NoPlainForm("the product is no (batched) product of matrices")
    order_a = [a.index(axis) for axis in (*batch, *rows, *inner)]
    order_b = [b.index(axis) for axis in (*batch, *inner, *columns)]
    multiply = _multiply(workload.tensors[left.tensor].dtype, workload.output.dtype, bool(batch))
    return lambda values: multiply(
        values[left.tensor].permute(order_a), values[right.tensor].permute(order_b)
    )


def _multiply(dtype: str, out_dtype: str, batched: bool) -> Callable[..., torch.Tensor]:
    if dtype == "int8":
        return torch._int_mm
    if dtype == "float8_e4m3":
        raise NoPlainForm("8-bit floats are not compared with the compiler yet")
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
