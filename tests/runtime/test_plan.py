"""A plan serves calls of its kind, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from autosched.runtime.plan import Plan, Prepared, holds, kind
from autosched.te.layout import stored
from autosched.te.operators import matmul

CPU = torch.device("cpu")
WORK = matmul(8, 16, 32, dtype="float32")


class TorchEngine:
    """Multiplies by torch; counts how often."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, inputs: Sequence[torch.Tensor], output: torch.Tensor | None) -> torch.Tensor:
        self.runs += 1
        assert output is not None
        return torch.mm(inputs[0], inputs[1], out=output)


@pytest.fixture
def engine() -> TorchEngine:
    return TorchEngine()


@pytest.fixture
def plan(engine: TorchEngine) -> Plan:
    return Plan(engine, WORK, CPU, ())


def operands() -> list[torch.Tensor]:
    return [torch.randn(8, 32), torch.randn(32, 16)]


def test_it_computes_into_what_it_is_given(plan: Plan) -> None:
    a, b = operands()
    made = plan.run([a, b], None)
    assert made is not None
    torch.testing.assert_close(made, a @ b)
    out = torch.empty(8, 16)
    assert plan.run([a, b], out) is out
    torch.testing.assert_close(out, a @ b)


def test_turned_inputs_are_handed_over_as_views(engine: TorchEngine) -> None:
    plan = Plan(engine, matmul(8, 16, 32, dtype="float32", trans_b=True), CPU, (False, True))
    a, b = torch.randn(8, 32), torch.randn(16, 32).t()
    engine.run = lambda inputs, output: torch.mm(inputs[0], inputs[1].t(), out=output)  # type: ignore[method-assign]
    made = plan.run([a, b], None)
    torch.testing.assert_close(made, a @ b)


def test_what_only_the_call_knows_is_checked(plan: Plan, engine: TorchEngine) -> None:
    a, b = operands()
    odd = torch.randn(8 * 32 + 1)[1:].view(8, 32)
    assert plan.run([odd, b], None) is None
    assert plan.run([a.requires_grad_(), b], None) is None
    with torch.no_grad():
        assert plan.run([a, b], None) is not None
    a = a.detach()
    memory = torch.randn(4096)
    left, out = memory[:256].view(8, 32), memory[128:256].view(8, 16)
    assert plan.run([left, b], out) is None
    assert plan.run([left, b], memory[256:384].view(8, 16)) is not None
    assert plan.run([a, b], torch.empty(129)[1:].view(8, 16)) is None
    assert engine.runs == 2


def test_kinds_differ_by_all_that_a_plan_takes_for_granted() -> None:
    a = torch.zeros(8, 16)
    others = [a.t(), a[:, :8], a.half(), torch.zeros(8, 17)[:, :16], None]
    kinds = {kind(a), *map(kind, others)}
    assert len(kinds) == len(others) + 1
    assert kind(torch.ones(8, 16)) == kind(a)


def test_a_plan_does_not_hold_where_records_depend_on_addresses() -> None:
    assert holds(WORK)
    assert not holds(stored(WORK, "A", strides=(32, 1), alignment_bytes=4))


def test_a_prepared_call_goes_the_long_way_with_other_tensors(plan: Plan) -> None:
    long_way: list[object] = []

    def otherwise(workload: object, *inputs: torch.Tensor, out: object = None) -> torch.Tensor:
        long_way.append((workload, out))
        return inputs[0]

    call = Prepared(plan, WORK, CPU, otherwise)
    a, b = operands()
    torch.testing.assert_close(call(a, b), a @ b)
    out = torch.empty(8, 16)
    assert call(a, b, out=out) is out
    assert not long_way
    call(a.half(), b)
    call(a, b, out=torch.empty(16, 8))
    call(a)
    assert [workload for workload, _ in long_way] == [WORK] * 3
