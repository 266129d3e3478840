from __future__ import annotations

import pytest
import torch

from autosched.bench.inductor import NoPlainForm, plain
from autosched.te.operators import batch_matmul, matmul
from measure import verify
from search_space.workload import Workload

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "workload",
    [
        matmul(17, 33, 15, dtype="float32"),
        matmul(17, 33, 15, dtype="float32", trans_a=True, trans_b=True),
        matmul(16, 8, 32, dtype="float32", epilogue=("bias", "gelu")),
        matmul(16, 8, 32, dtype="float32", epilogue=("residual", "relu", "scale:0.5")),
        matmul(16, 8, 32, dtype="float32", epilogue=("bias", "gelu_tanh", "silu")),
        batch_matmul(3, 5, 7, 9, dtype="float32", trans_b=True, epilogue=("bias",)),
    ],
    ids=lambda workload: workload.label,
)
def test_the_plain_form_computes_the_workload(workload: Workload) -> None:
    case = verify.random_case(workload, 1, CPU)
    output = plain(workload)(*case.inputs)
    assert output.dtype == torch.float32
    assert float(verify.worst_error(case, output)) <= 1.0


def test_what_is_no_product_is_refused() -> None:
    with pytest.raises(NoPlainForm, match="not compared"):
        plain(matmul(16, 16, 16, dtype="float8_e4m3"))
