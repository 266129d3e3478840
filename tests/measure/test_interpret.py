"""Right kernels pass in the interpreter; each planted fault is caught and named."""

from __future__ import annotations

import hand_kernels as kernels
import pytest

from measure import interpret
from measure.measurement import Evidence, Failed, Failure

WORKLOAD = kernels.workload(17, 33, 50)
TILE = (16, 32, 16)
STORE = "tl.store(c + rm[:, None] * SN"
DOT = 'acc = tl.dot(x, y, acc, input_precision="ieee")'


def wrong(old: str, new: str) -> str:
    assert old in kernels.MATMUL
    return kernels.MATMUL.replace(old, new)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_right_kernel_passes_with_its_evidence(dtype: str) -> None:
    w = kernels.workload(17, 33, 50, dtype)
    evidence = interpret.check(w, kernels.pointer_matmul(w, TILE), seed=4)
    assert isinstance(evidence, Evidence)
    assert evidence.seeds == (4,)
    assert 0 <= evidence.max_error <= 1
    assert "float64" in evidence.reference


def test_descriptors_run() -> None:
    w = kernels.workload(32, 64, 64, "float16")
    evidence = interpret.check(w, kernels.descriptor_matmul(w, (32, 32, 32)), seed=0)
    assert isinstance(evidence, Evidence)


FAULTS = {
    "no-op": (
        wrong(STORE, "tl.store(c + SM * SN + rm[:, None] * SN").replace(
            "(rn[None, :] < SN))\n", "(rn[None, :] < 0))\n"
        ),
        "never written",
    ),
    "half written": (
        wrong(
            "(rm[:, None] < SM) & (rn[None, :] < SN))\n",
            "(rm[:, None] < SM) & (rn[None, :] < 16))\n",
        ),
        "never written",
    ),
    "one tile only": (
        wrong("    acc = tl.zeros", "    if pid_m > 0:\n        return\n    acc = tl.zeros"),
        "never written",
    ),
    "mask off by one": (
        wrong(
            "mask=(rm[:, None] < SM) & (rn[None, :] < SN))\n",
            "mask=(rm[:, None] < SM) & (rn[None, :] < SN + 1))\n",
        ),
        ("small integers", "outside"),
    ),
    "last block forgotten": (wrong("range(0, EK, BK)", "range(0, EK - BK, BK)"), "times the"),
    "K mask off by one": (
        wrong("(rn[None, :] < SN), other", "(rn[None, :] < SN), other").replace(
            "< SK), other", "< SK - 1), other"
        ),
        "times the",
    ),
    "accumulates in float16": (
        wrong(DOT, DOT + "\n        acc = acc.to(tl.float16).to(tl.float32)"),
        "seed 0: off by",
    ),
    "writes NaN": (wrong("acc.to(OUT)", "(acc + float('nan')).to(OUT)"), "NaN"),
    "changes its input": (
        wrong(
            "    tl.store",
            "    tl.store(a + rm, tl.load(a + rm, mask=rm < SM) + 1, mask=rm < SM)\n    tl.store",
        ),
        "changed its inputs",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults(name: str) -> None:
    text, said = FAULTS[name]
    failed = interpret.check(WORKLOAD, kernels.pointer_matmul(WORKLOAD, TILE, text=text), seed=0)
    assert isinstance(failed, Failed), name
    assert failed.kind is Failure.CORRECTNESS
    assert all(word in failed.detail for word in ([said] if isinstance(said, str) else said))


def test_what_does_not_run_is_named_and_the_next_is_healthy() -> None:
    good = kernels.pointer_matmul(WORKLOAD, TILE)
    for text, kind in (
        ("def kernel(a, b, c:\n", Failure.COMPILE),
        ("import os\nos.abort()\n", Failure.RUNTIME),
        ("import os\nos._exit(0)\n", Failure.RUNTIME),
    ):
        failed = interpret.check(WORKLOAD, kernels.with_source(good, text), seed=0)
        assert isinstance(failed, Failed)
        assert failed.kind is kind
        assert isinstance(interpret.check(WORKLOAD, good, seed=0), Evidence)


def test_an_endless_kernel_is_killed() -> None:
    endless = kernels.pointer_matmul(
        WORKLOAD,
        TILE,
        text=wrong("    acc = tl.zeros", "    while True:\n        pass\n    acc = tl.zeros"),
    )
    assert isinstance(
        interpret.check(WORKLOAD, kernels.pointer_matmul(WORKLOAD, TILE), 0), Evidence
    )
    failed = interpret.check(WORKLOAD, endless, seed=0, timeout_s=3)
    assert isinstance(failed, Failed)
    assert failed.kind is Failure.TIMEOUT
