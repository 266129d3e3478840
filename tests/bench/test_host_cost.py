"""Ways to call take turns, and waiting is no part of what they cost."""

from __future__ import annotations

import time

from autosched.bench.host_cost import host_us, table


def test_ways_take_turns_and_waiting_is_not_timed() -> None:
    said: list[str] = []
    ways = {"fast": lambda: said.append("fast"), "slow": lambda: time.sleep(1e-3)}
    costs = host_us(ways, lambda: time.sleep(5e-3), rounds=5, calls=2)
    assert list(costs) == ["fast", "slow"]
    assert said == ["fast"] * 10
    assert costs["fast"] < 1000 <= costs["slow"]


def test_the_table_compares_with_torch() -> None:
    costs = {"torch.mm(a, b, out=c)": 12.0, "prepared(a, b, out=c)": 6.0}
    data = {"workload": "w", "source": "default", "sketch": "s", "host_us": costs}
    text = table({**data, "first_call_s": {"after warm": 0.01}})
    assert "| after warm | 0.010 |" in text
    assert table(data) == text.partition("\n\n| first call")[0]
    assert "| prepared(a, b, out=c) | 6.00 | 0.50 |" in text
