"""A reference that is wrong is found before anything is held against it."""

from __future__ import annotations

from pathlib import Path

import hand_kernels as kernels
import pytest
import torch

from autosched.te import operators
from measure import reference, sample_data, second_opinion
from measure.runner import Runner
from measure.second_opinion import POINTS, Disagreement
from measure.service import BadReference
from search_space import target as targets
from search_space.expr import Affine, Read
from search_space.workload import Axis, Reducer, Stage, Tensor, Workload

CPU = torch.device("cpu")


def window(reducer: Reducer) -> Workload:
    """Every three neighbours of a row joined; the outer ones lie outside the row."""
    i, j, r = (Affine.axis(name) for name in "ijr")
    beside = j + r + Affine((), -1)
    return Workload(
        (Axis("i", 5, "spatial"), Axis("j", 9, "spatial"), Axis("r", 3, "reduction")),
        (Tensor("X", (5, 9), "float32"),),
        (),
        Tensor("Y", (5, 9), "float32"),
        (Stage("Y", (i, j), Read("X", (i, beside)), reducer),),
        label="window",
    )


WORKLOADS = {
    "matmul": operators.matmul(33, 17, 40, dtype="float16"),
    "epilogue": operators.matmul(
        32, 24, 48, dtype="bfloat16", epilogue=("bias", "gelu", "residual", "scale:0.5")
    ),
    "transposed": operators.matmul(16, 31, 15, dtype="float32", trans_a=True, trans_b=True),
    "batch": operators.batch_matmul(3, 8, 9, 10, dtype="float16"),
    "float8": operators.matmul(16, 32, 64, dtype="float8_e4m3", out_dtype="bfloat16", trans_b=True),
    "int8": operators.matmul(16, 32, 64, dtype="int8", out_dtype="int32", trans_b=True),
    "window": window("max"),
    "padded sum": window("sum"),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_references_agree(name: str) -> None:
    w = WORKLOADS[name]
    inputs = sample_data.random_inputs(w, 0, CPU)
    assert second_opinion.check(w, inputs) == POINTS * len(w.stages)


@pytest.mark.parametrize("name", ["matmul", "epilogue", "batch"])
def test_every_stage_is_held(name: str) -> None:
    w = WORKLOADS[name]
    inputs = sample_data.random_inputs(w, 0, CPU)
    for stage in w.stages:
        results = reference.evaluate(w, inputs)
        results[stage.output] = results[stage.output] * (1 + 2**-6) + 2**-6
        with pytest.raises(Disagreement) as caught:
            second_opinion.hold(w, inputs, results)
        message = str(caught.value)
        assert message.startswith(f"two references disagree about {stage.output}[")
        assert "whole tensors in float64 give" in message
        assert "terms one by one in float64 give" in message


def test_a_reference_that_mixes_axes_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    w = kernels.workload(16, 16, 16)
    inputs = sample_data.random_inputs(w, 0, CPU)
    results = {name: made.T for name, made in reference.evaluate(w, inputs).items()}
    with pytest.raises(Disagreement, match=r"about acc\[\d+, \d+\]"):
        second_opinion.hold(w, inputs, results)


def test_few_elements_of_a_long_sum_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_opinion, "TERMS", 100)
    w = kernels.workload(16, 16, 48)
    assert second_opinion.check(w, sample_data.random_inputs(w, 0, CPU)) == 2 + POINTS


def test_a_wrong_reference_is_an_error_of_its_own() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        w: Workload = kernels.workload(16, 16, 16)
        with pytest.raises(BadReference, match="two references disagree about acc"):
            Runner(w, targets.load("h200"), "cpu", module="misled_worker")
