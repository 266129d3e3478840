"""The tolerance lets right results pass at every length and stops wrong ones."""

from __future__ import annotations

import math

import pytest
import torch

from autosched.te.operators import matmul
from measure import reference, verify
from measure.output import GUARD_BYTES, GuardedOutput
from measure.tensor import TORCH_DTYPES
from search_space.program import Buffer
from search_space.workload import Workload

CPU = torch.device("cpu")
LENGTHS = (16, 64, 1024, 4096, 16384)


def product(case: verify.Case, k: int | None = None) -> torch.Tensor:
    """A float32 matmul over the first ``k`` of the reduction, as a kernel would make it."""
    a, b = case.inputs[:2]
    return a[:, :k].float() @ b[:k].float()


def error(case: verify.Case, value: torch.Tensor, dtype: str) -> float:
    return float(verify.worst_error(case, value.to(TORCH_DTYPES[dtype])))


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_right_passes_and_a_missing_block_fails(k: int, dtype: str) -> None:
    w = matmul(64, 96, k, dtype=dtype)
    for case in (verify.random_case(w, 3, CPU), verify.edge_case(w, 3, CPU)):
        assert error(case, product(case), dtype) <= 1
        assert error(case, product(case, k - 16), dtype) > 10
        assert error(case, product(case, k - 1), dtype) > 2


@pytest.mark.parametrize("k", LENGTHS[1:])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_accumulating_in_float16_fails(k: int, dtype: str) -> None:
    w = matmul(64, 96, k, dtype="float16", out_dtype=dtype)
    case = verify.random_case(w, 5, CPU)
    a, b = (x.float() for x in case.inputs)
    total = torch.zeros(64, 96)
    for start in range(0, k, 16):
        part = a[:, start : start + 16] @ b[start : start + 16]
        total = (total + part).half().float()
    assert error(case, total, dtype) > 2


@pytest.mark.parametrize("k", LENGTHS)
def test_a_truncating_accumulator_passes(k: int) -> None:
    """Tensor cores cut sums off instead of rounding them, after every 16 products."""
    w = matmul(64, 96, k, dtype="float16", out_dtype="float32")
    case = verify.random_case(w, 5, CPU)
    a, b = (x.double() for x in case.inputs)
    total = torch.zeros(64, 96, dtype=torch.float64)
    for start in range(0, k, 16):
        total = total + a[:, start : start + 16] @ b[start : start + 16]
        whole = total.float()
        beyond = whole.double().abs() > total.abs()
        total = torch.where(beyond, whole.nextafter(torch.zeros(())), whole).double()
    assert error(case, total, "float32") <= 1


@pytest.mark.parametrize("k", LENGTHS[1:])
def test_fast_sums_of_float8_pass_where_they_are_meant_and_only_there(k: int) -> None:
    """The accumulator is cut to 13 bits below the leading one after every 32 products."""
    for precision, passes in (("fast", True), ("ieee", False)):
        w = matmul(64, 96, k, dtype="float8_e4m3", out_dtype="float32", precision=precision)  # type: ignore[arg-type]
        case = verify.random_case(w, 5, CPU)
        a, b = (x.double() for x in case.inputs)
        total = torch.zeros(64, 96, dtype=torch.float64)
        for start in range(0, k, 32):
            total = total + a[:, start : start + 32] @ b[start : start + 32]
            bits = total.float().view(torch.int32) & ~0x3FF
            total = bits.view(torch.float32).double()
        assert (error(case, total.float(), "float32") <= 1) is passes
        assert error(case, product(case, k - 32), "float32") > 2


@pytest.mark.parametrize("k", LENGTHS)
def test_tf32_passes_where_it_is_meant_and_only_there(k: int) -> None:
    for precision, passes in (("tf32", True), ("ieee", False)):
        w = matmul(64, 96, k, dtype="float32", precision=precision)  # type: ignore[arg-type]
        case = verify.random_case(w, 1, CPU)
        a, b = (_tf32(x) for x in case.inputs)
        assert (error(case, a @ b, "float32") <= 1) is passes
        assert error(case, product(case, k - 16), "float32") > 2


def _tf32(x: torch.Tensor) -> torch.Tensor:
    """Cut float32 to the 10 stored bits of tf32, as the hardware may."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("epilogue", [("bias", "gelu"), ("silu",), ("scale:0.001", "relu")])
def test_an_epilogue_carries_the_error_on(epilogue: tuple[str, ...]) -> None:
    w = matmul(32, 48, 512, dtype="float16", epilogue=epilogue)
    case = verify.random_case(w, 2, CPU)
    right = reference.evaluate(w, case.inputs)["C"]
    short = reference.evaluate(
        matmul(32, 48, 496, dtype="float16", epilogue=epilogue),
        [case.inputs[0][:, :496], case.inputs[1][:496], *case.inputs[2:]],
    )["C"]
    assert error(case, right, "float16") <= 1
    assert error(case, short, "float16") > 10


def test_small_integers_are_exact() -> None:
    w = matmul(16, 16, 64, dtype="float32")
    case = verify.edge_case(w, 0, CPU)
    assert error(case, product(case), "float32") == 0.0
    off = product(case)
    off[3, 4] += 1
    assert error(case, off, "float32") > 1e3


def test_nan_and_infinity_appear_exactly_where_the_reference_has_them() -> None:
    w = matmul(4, 4, 16, dtype="float16", epilogue=("scale:30000",))
    case = verify.random_case(w, 0, CPU)
    assert not case.finite
    right = case.expected.half()
    assert right.isinf().any()
    assert not right.isinf().all()
    assert float(verify.worst_error(case, right)) <= 1
    wrong = right.clone()
    wrong[right.isinf()] = 65504.0
    assert float(verify.worst_error(case, wrong)) > 1
    nan = right.clone()
    nan[0, 0] = math.nan
    assert not float(verify.worst_error(case, nan)) <= 1


def test_an_unwritten_element_is_seen() -> None:
    w = matmul(4, 4, 16, dtype="float16")
    case = verify.random_case(w, 0, CPU)
    output = case.expected.half()
    output[2, 3] = math.nan
    assert math.isnan(float(verify.worst_error(case, output)))


def test_changed_inputs_are_seen() -> None:
    w = matmul(4, 4, 16, dtype="float16")
    case = verify.random_case(w, 0, CPU)
    assert not bool(verify.inputs_changed(case, case.inputs))
    case.inputs[1][15, 3] += 1
    assert bool(verify.inputs_changed(case, case.inputs))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3", "int32"])
@pytest.mark.parametrize("strides", [(5, 1), (8, 1), (1, 7)])
def test_writes_beside_the_output_are_seen(dtype: str, strides: tuple[int, int]) -> None:
    output = GuardedOutput(Buffer("C", (7, 5), strides, dtype, "output"), CPU)
    assert output.tensor.stride() == strides
    assert output.tensor.data_ptr() % 16 == 0
    output.poison()
    assert not bool(output.overrun())
    values = output.tensor.float()
    assert bool(values.isnan().all() if dtype != "int32" else (values == -1).all())
    output.tensor.fill_(1)
    assert not bool(output.overrun())
    reach = 1 + 6 * strides[0] + 4 * strides[1]
    flat = output.tensor.as_strided((reach + 1,), (1,), output.tensor.storage_offset())
    flat[reach] = 0
    assert bool(output.overrun())
    output.poison()
    before = output.tensor.as_strided((1,), (1,), output.tensor.storage_offset() - 1)
    before[0] = 0
    assert bool(output.overrun())
    assert GUARD_BYTES % 256 == 0


def test_one_output_element_does_not_make_the_tolerance_shrink() -> None:
    for seed in range(20):
        w: Workload = matmul(1, 1, 4096, dtype="float16", out_dtype="float32")
        case = verify.random_case(w, seed, CPU)
        assert error(case, product(case), "float32") <= 1
