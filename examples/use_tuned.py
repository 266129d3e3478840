"""Serve a linear layer from a tuned log: python examples/use_tuned.py [tuned.jsonl]

Without a GPU it says what would serve; with TRITON_INTERPRET=1 it runs in Triton's interpreter.
"""

import os
import sys

import torch

import autosched
from autosched.te.operators import matmul


def main(path: str) -> None:
    """Serve gelu(x @ weight.T + bias) from the log at ``path``."""
    tuned = autosched.load(path)
    print(tuned.summary())

    layer = matmul(64, 256, 128, dtype="float16", trans_b=True, epilogue=("bias", "gelu"))
    served = tuned.lookup(layer)
    print(f"\n{served.source}: {served.reason}")

    if torch.cuda.is_available():
        device = "cuda"
    elif os.environ.get("TRITON_INTERPRET") == "1":
        device = "cpu"
    else:
        print("no GPU here: nothing runs")
        return
    x = torch.randn(64, 128, device=device).half()
    weight = torch.randn(256, 128, device=device).half()
    bias = torch.randn(256, device=device).half()
    y = tuned.matmul(x, weight, trans_b=True, bias=bias, activation="gelu")
    want = torch.nn.functional.gelu(x.float() @ weight.float().t() + bias.float())
    print(f"largest error {float((y.float() - want).abs().max()):.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["tuned.jsonl"])
