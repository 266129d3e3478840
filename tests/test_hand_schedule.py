"""The example of a schedule by hand runs as it is: checked and predicted where there is no GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def test_a_schedule_by_hand_beats_the_naive_one() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "hand_schedule.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "A_desc.load([i0 * 128, k0 * 64])" in done.stdout
    how = "measured" if torch.cuda.is_available() else "predicted"
    assert done.stdout.count(how) == 2
    (factor,) = re.findall(r"by hand is ([\d.]+) times as fast", done.stdout)
    assert float(factor) > 1
    assert "explains itself: Split: 'i' has already been split or fused" in done.stdout
