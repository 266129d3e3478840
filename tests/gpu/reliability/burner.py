"""Keeps a GPU busy beside a run, until it is killed. Says when it has begun."""

from __future__ import annotations

import os
import time

import torch

if os.environ.get("AUTOSCHED_DRY_RUN"):
    print(time.time(), flush=True)
    time.sleep(600)
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
out = a @ a
torch.cuda.synchronize()
print(time.time(), flush=True)
while True:
    for _ in range(20):
        torch.mm(a, a, out=out)
    torch.cuda.synchronize()
