"""Whole kernels as text: a change in any of them is seen, and wants a new rendering version."""

import hashlib
from pathlib import Path

import pytest

from autosched.codegen.render import RENDERING_VERSION, render
from autosched.te import operators, text
from autosched.te.convolution import conv2d, depthwise_conv2d

PLAIN = operators.matmul(2048, 2048, 512, dtype="float16")
ODD = operators.matmul(100, 33, 50, dtype="float16", epilogue=["bias", "residual", "gelu"])
SKINNY = operators.matmul(16, 256, 4096, dtype="bfloat16", trans_b=True, epilogue=["silu"])
BATCH = operators.batch_matmul(3, 128, 128, 128, dtype="float32", precision="tf32")
PIXELS = depthwise_conv2d(
    n=2, h=33, w=33, ci=6, kh=5, kw=5, stride=2, pad=2, dtype="float32", layout="NCHW"
)
CHANNELS = depthwise_conv2d(
    n=2, h=30, w=30, ci=64, kh=3, kw=3, pad=1, dtype="float16", layout="NHWC", epilogue=["relu"]
)
NORMS = text.parse(
    "S[b] += X[b,i,j] * X[b,i,j]",
    {"b": 4, "i": 128, "j": 300},
    {"X": text.Stored((4, 128, 300), "float32")},
    "sqrt(S[b])",
)
TURNED = text.parse(
    "Y[i,j] = relu(X[j,i] + Z[i,j])",
    {"i": 500, "j": 300},
    {"X": text.Stored((300, 500), "float16"), "Z": text.Stored((500, 300), "float16")},
)
WINDOWS = conv2d(n=2, h=14, w=14, ci=64, co=64, kh=3, kw=3, pad=1, dtype="float16", layout="NHWC")
#: Of what repeats the lines of others, with channels last, these are kept.
KEPT = ("direct.channels", "direct.channels.packed", "direct.channels.rows2")
CASES = {
    "plain": PLAIN,
    "odd": ODD,
    "skinny": SKINNY,
    "batch": BATCH,  # tf32: B packed
    "pixels": PIXELS,
    "channels": CHANNELS,
    "windows": WINDOWS,
    "norms": NORMS,
    "turned": TURNED,
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_what_they_were(case: str, schedules, h200, golden) -> None:
    for sketch, schedule in schedules.typical(CASES[case], h200):
        if case == "channels" and sketch.name not in KEPT:
            continue
        program = render(CASES[case], schedule, h200)
        golden(f"{case}/{sketch.name}.py", program.source)


def test_the_same_schedule_renders_to_the_same_program(schedules, h200) -> None:
    for _, schedule in schedules.typical(ODD, h200):
        first, second = render(ODD, schedule, h200), render(ODD, schedule, h200)
        assert first == second
        assert first.fingerprint == second.fingerprint


#: What all golden kernels hash to at each rendering version. A kernel that changes without a
#: new version would serve logged schedules as other code than was measured.
GOLDENS_AT_VERSION = {1: "2c643bc6a29dd760", 2: "b7a849207b7b3aa8", 3: "836726b07664689b"}


def test_goldens_change_only_with_the_rendering_version() -> None:
    folder = Path(__file__).parents[1] / "golden"
    digest = hashlib.sha256()
    for case in sorted(CASES):
        for path in sorted((folder / case).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    assert digest.hexdigest()[:16] == GOLDENS_AT_VERSION[RENDERING_VERSION]
