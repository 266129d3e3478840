"""Whole kernels as text: a change in any of them is seen, and wants a new rendering version."""

import hashlib
from pathlib import Path

import pytest

from autosched.codegen.render import RENDERING_VERSION, render
from autosched.te import operators

PLAIN = operators.matmul(2048, 2048, 512, dtype="float16")
ODD = operators.matmul(100, 33, 50, dtype="float16", epilogue=["bias", "residual", "gelu"])
SKINNY = operators.matmul(16, 256, 4096, dtype="bfloat16", trans_b=True, epilogue=["silu"])
BATCH = operators.batch_matmul(3, 128, 128, 128, dtype="float32", precision="tf32")
CASES = {"plain": PLAIN, "odd": ODD, "skinny": SKINNY, "batch": BATCH}  # tf32: B packed


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_what_they_were(case: str, schedules, h200, golden) -> None:
    for sketch, schedule in schedules.typical(CASES[case], h200):
        program = render(CASES[case], schedule, h200)
        golden(f"{case}/{sketch.name}.py", program.source)


def test_the_same_schedule_renders_to_the_same_program(schedules, h200) -> None:
    for _, schedule in schedules.typical(ODD, h200):
        first, second = render(ODD, schedule, h200), render(ODD, schedule, h200)
        assert first == second
        assert first.fingerprint == second.fingerprint


#: What all golden kernels hash to at each rendering version. A kernel that changes without a
#: new version would serve logged schedules as other code than was measured.
GOLDENS_AT_VERSION = {1: "2c643bc6a29dd760", 2: "b7a849207b7b3aa8", 3: "cf1197dbef25c421"}


def test_goldens_change_only_with_the_rendering_version() -> None:
    folder = Path(__file__).parents[1] / "golden"
    digest = hashlib.sha256()
    for case in sorted(CASES):
        for path in sorted((folder / case).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    assert digest.hexdigest()[:16] == GOLDENS_AT_VERSION[RENDERING_VERSION]
