"""Makes the hand-written kernels importable by the GPU tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "measure"))
