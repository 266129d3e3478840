"""Hold an output against the reference, with a tolerance that follows from the computation.

Knows nothing of kernels. The tolerance is ``atol + rtol * |reference|`` per element.

``rtol`` is the rounding of the result to the output's dtype: its unit roundoff (2**-11 for
float16, 2**-8 for bfloat16, 2**-24 for float32), a quarter more for a rounding tipped over by an
error before it, and a few float32 roundings for every function of the expression.

``atol`` is what errors of the accumulator can do to the result. A float32 accumulator of K terms
that behave as random signs errs by about ``u * sqrt(K) * |sum|``, u = 2**-24 (Higham and Mary,
"A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019: the
constant sqrt(K) in place of K). Tensor cores cut sums off instead of rounding them, so that errors
share a sign and add up; the factor 32 covers that for K up to 16,384, and the largest of many
millions of elements. Float32 products in tf32 add the rounding of both operands to 11 bits,
``2**-10`` each at the most, with random signs; sums of float8 products that are "fast" add the
rounding of the tensor core's own accumulator. How far the accumulator's error moves the result is
measured, by evaluating the reference with the accumulator shifted by it.

So a kernel that drops one block of K (an error of sqrt(block) at the least) or accumulates in
float16 (2**13 times the rounding) is far outside at any K, and a right one is well inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from measure import reference, sample_data, second_opinion
from measure.tensor import TORCH_DTYPES
from search_space.dtype import DTYPES
from search_space.expr import Call, Expr, Read, reads, walk
from search_space.workload import Stage, Workload

#: Largest element error of a float32 accumulator, in units of u * sqrt(K) * typical sum.
ACCUMULATION = 32.0
#: The same for operands rounded or truncated to tf32, in units of 2**-11 * sqrt(K) * product.
TF32 = 8.0
#: The same for sums kept in the float8 tensor core's accumulator, in units of
#: 2**-13 * sqrt(K / 32) * typical sum: it adds the products of 32 terms at a time and keeps 13
#: bits below the leading one (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). Right kernels of
#: 4096 terms were seen to err by 9 such units on an H200, the largest of 10**8 elements.
FAST = 20.0
FAST_TERMS = 32
_FLOAT32_ROUNDOFF = 2.0**-24
_TF32_ROUNDOFF = 2.0**-11
_FAST_ROUNDOFF = 2.0**-13
#: Unit roundoff and half the smallest step of each output dtype.
_ROUNDOFF: Mapping[str, tuple[float, float]] = {
    "float16": (2.0**-11, 2.0**-25),
    "bfloat16": (2.0**-8, 0.0),
    "float32": (2.0**-24, 0.0),
    "float64": (2.0**-53, 0.0),
    "float8_e4m3": (2.0**-4, 2.0**-10),
}


@dataclass(frozen=True)
class Tolerance:
    """``|out - reference| <= atol + rtol * |reference|``, element by element."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Case:
    """One set of inputs with what a right kernel makes of it.

    ``expected`` is the reference, not rounded to the output's dtype; ``allowed`` the tolerance
    of each element. ``finite`` says that nothing in ``expected`` is NaN or infinite.
    """

    name: str
    inputs: tuple[torch.Tensor, ...]
    expected: torch.Tensor
    allowed: torch.Tensor
    tolerance: Tolerance
    finite: bool
    checksums: torch.Tensor
    #: What the reference was, for the record.
    reference: str


def random_case(
    workload: Workload, seed: int, device: torch.device, *, doubted: bool = False
) -> Case:
    """Make inputs by ``seed`` and evaluate the reference on them.

    ``doubted`` holds the reference against a second one; raises second_opinion.Disagreement.
    """
    inputs = sample_data.random_inputs(workload, seed, device)
    return _case(workload, f"seed {seed}", inputs, exact=False, doubted=doubted)


def edge_case(workload: Workload, seed: int, device: torch.device) -> Case:
    """Make inputs of small integers, whose sums are exact, and evaluate the reference."""
    inputs = sample_data.edge_inputs(workload, seed, device)
    return _case(workload, "small integers", inputs, exact=True)


def worst_error(case: Case, output: torch.Tensor) -> torch.Tensor:
    """Return the largest error of ``output`` as a multiple of the tolerance, on its device.

    A zero-dimensional tensor: 1.0 is the tolerance itself; NaN where the output is NaN and the
    reference is not. Where the reference is NaN or infinite the output must be the same.
    """
    if output.numel() == 0:
        return torch.zeros((), dtype=case.expected.dtype, device=output.device)
    error = (output.to(case.expected.dtype) - case.expected).abs_().div_(case.allowed)
    if not case.finite:
        rounded = case.expected.to(output.dtype)
        same = (output == rounded) | (output.isnan() & rounded.isnan())
        error = torch.where(same, 0.0, torch.where(rounded.isfinite(), error, math.inf))
    return error.max()


def inputs_changed(case: Case, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return, on the device, whether ``inputs`` hold anything but the data of the case."""
    return (checksums(inputs) != case.checksums).any()


def checksums(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return one 64-bit checksum per tensor: its bits summed, modulo 2**64."""
    return torch.stack([_bits(tensor).sum(dtype=torch.int64) for tensor in tensors])


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    widths = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.view(widths[tensor.element_size()])
    if tensor.element_size() < 4 and tensor.is_contiguous() and not tensor.data_ptr() % 4:
        flat = bits.view(-1)
        per_word = 4 // tensor.element_size()
        if flat.numel() % per_word == 0:
            return flat.view(torch.int32)
    return bits


def _case(
    workload: Workload,
    name: str,
    inputs: list[torch.Tensor],
    *,
    exact: bool,
    doubted: bool = False,
) -> Case:
    results = reference.evaluate(workload, inputs)
    if doubted:
        second_opinion.hold(workload, inputs, results)
    expected = results[workload.output.name]
    allowance = tolerance(workload, inputs, results, exact=exact)
    if workload.output.dtype != "float64":
        expected = expected.to(torch.float32).contiguous()
    allowed = expected.abs().mul_(allowance.rtol).add_(allowance.atol)
    finite = bool(
        expected.to(TORCH_DTYPES[workload.output.dtype]).to(expected.dtype).isfinite().all()
    )
    if not finite:
        allowed.nan_to_num_(nan=allowance.atol, posinf=allowance.atol)
    sums = checksums(inputs) if inputs else torch.zeros(0)
    precision = str(reference.compute_dtype(workload)).removeprefix("torch.")
    said = f"torch {torch.__version__} in {precision}"
    return Case(name, tuple(inputs), expected, allowed, allowance, finite, sums, said)


def tolerance(
    workload: Workload,
    inputs: Sequence[torch.Tensor],
    results: Mapping[str, torch.Tensor],
    *,
    exact: bool = False,
) -> Tolerance:
    """Return the tolerance for one set of inputs; ``exact`` says that its sums are exact.

    ``results`` is what ``reference.evaluate`` returned for ``inputs``.
    """
    if DTYPES[workload.output.dtype].kind == "int":
        return Tolerance(0.0, 0.5)
    roundoff, smallest = _ROUNDOFF[workload.output.dtype]
    calls = sum(
        isinstance(node, Call)
        for stage in workload.stages
        if stage.reducer is None
        for node in walk(stage.value)
    )
    functions = 8 * calls * _FLOAT32_ROUNDOFF
    atol = smallest + functions * _typical(results[workload.output.name])
    if not (exact and _sums_of_input_products(workload)):
        atol += _moved(workload, inputs, results)
    rtol = 1.25 * roundoff + functions
    if workload.precision == "tf32":
        rtol += 2 * _TF32_ROUNDOFF
    return Tolerance(rtol, max(atol, 2.0**-60))


def _moved(
    workload: Workload, inputs: Sequence[torch.Tensor], results: Mapping[str, torch.Tensor]
) -> float:
    """Return how far the output moves when every accumulator is off by its own error."""
    values = {t.name: x for t, x in zip(workload.inputs, inputs, strict=True)} | dict(results)
    errors = {
        stage.output: accumulation_error(workload, stage, values)
        for stage in workload.stages
        if stage.reducer == "sum"
    }
    inner = {name: error for name, error in errors.items() if name != workload.output.name}
    moved = errors.get(workload.output.name, 0.0)
    if not inner:
        return moved
    for sign in (1.0, -1.0):
        shifted = reference.evaluate(workload, inputs, {n: sign * e for n, e in inner.items()})
        difference = shifted[workload.output.name] - results[workload.output.name]
        largest = difference.abs_().nan_to_num_(0.0, 0.0).max() if difference.numel() else 0.0
        moved = max(moved, float(largest))
    return moved


def accumulation_error(
    workload: Workload, stage: Stage, values: Mapping[str, torch.Tensor]
) -> float:
    """Return the largest error that a float32 sum of a stage may have (see the module)."""
    inside = {axis for form in stage.index for axis in form.axes}
    summed = {a for read in reads(stage.value) for form in read.index for a in form.axes} - inside
    terms = math.prod(workload.extents[axis] for axis in summed)
    typical = _typical_sum(stage.value, terms, values)
    if typical is None:
        typical = _typical(values[stage.output])
    error = ACCUMULATION * _FLOAT32_ROUNDOFF * math.sqrt(terms) * typical
    if workload.precision == "tf32":
        error += TF32 * _TF32_ROUNDOFF * typical
    if workload.precision == "fast":
        error += FAST * _FAST_ROUNDOFF * math.sqrt(terms / FAST_TERMS) * typical
    return error


def _sums_of_input_products(workload: Workload) -> bool:
    """Whether every sum adds products of inputs alone: integers then stay integers."""
    given = {t.name for t in workload.inputs}
    return all(
        (isinstance(node, Read) and node.tensor in given)
        or (isinstance(node, Call) and node.function == "mul")
        for stage in workload.stages
        if stage.reducer == "sum"
        for node in walk(stage.value)
    )


def _typical_sum(value: Expr, terms: int, values: Mapping[str, torch.Tensor]) -> float | None:
    """Return the deviation of a sum of ``terms`` products of independent reads, if it is one."""
    factors = [node for node in walk(value) if isinstance(node, Read)]
    products = all(node.function == "mul" for node in walk(value) if isinstance(node, Call))
    if not products or not factors:
        return None
    scale = math.prod(_typical(values[read.tensor]) for read in factors)
    return math.sqrt(terms) * scale


def _typical(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite elements."""
    if not tensor.numel():
        return 0.0
    squares = tensor.to(torch.float32).square().nan_to_num_(0.0, 0.0, 0.0)
    return math.sqrt(float(squares.mean(dtype=torch.float64)))
