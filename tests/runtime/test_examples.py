from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from autosched.te.operators import matmul
from measure.log import LogWriter
from measure.record import TrialRecord

ROOT = Path(__file__).parent.parent.parent
LAYER = matmul(64, 256, 128, dtype="float16", trans_b=True, epilogue=("bias", "gelu"))


def run(name: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_use_tuned(tmp_path: Path, record: Callable[..., TrialRecord]) -> None:
    log = tmp_path / "tuned.jsonl"
    with LogWriter(log) as writer:
        writer.append(record(LAYER, 5.5))
    said = run("use_tuned.py", str(log), TRITON_INTERPRET="1")
    assert "1 workload served" in said
    assert "tuned: best of 1 measured, 5.5 us on NVIDIA H200" in said
    assert float(said.rsplit("largest error", 1)[1]) < 0.05


def test_serve_expression() -> None:
    said = run("serve_expression.py")
    assert said.startswith("default: the log has no record of this workload")
    assert "tl.dot(" in said
