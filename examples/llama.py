"""A small transformer after Llama (Touvron et al., arXiv:2302.13971) in plain torch, with random
weights: root-mean-square norms, rotary positions, gated feed-forward layers.

    autosched extract examples/llama.py:prefill -o tasks.yaml
    autosched tune tasks.yaml --budget-seconds 120 -o llama.jsonl
    python -m autosched.bench.model_run examples/llama.py:prefill --log llama.jsonl
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own custom)
from torch import nn


@dataclass(frozen=True)
class Sizes:
    """How large a model is."""

    width: int = 2048
    heads: int = 16
    hidden: int = 5632
    layers: int = 8
    words: int = 32000


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Turn pairs of features of [n, heads, tokens, features] by their position (Su et al.,
    arXiv:2104.09864)."""
    tokens, features = x.shape[-2:]
    steps = torch.arange(0, features, 2, device=x.device) / features
    places = torch.arange(tokens, device=x.device)
    angles = torch.outer(places, 10000.0**-steps)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm and added to what came in."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.attention_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)
        self.feed_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.gate_up = nn.Linear(sizes.width, 2 * sizes.hidden, bias=False)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, tokens, width] of the same."""
        n, tokens, width = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(n, tokens, 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, tokens, width))
        gate, up = self.gate_up(self.feed_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    """Words in, scores of the next word out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.words, sizes.width)
        self.blocks = nn.Sequential(*(Block(sizes) for _ in range(sizes.layers)))
        self.norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.head = nn.Linear(sizes.width, sizes.words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return scores [n, words] after the last of words [n, tokens]."""
        x = self.norm(self.blocks(self.embedding(words)))
        return self.head(x[:, -1])


def built(batch: int, tokens: int, sizes: Sizes | None = None) -> tuple[nn.Module, torch.Tensor]:
    """Return the model and its input: bfloat16 on a GPU, float32 without one."""
    torch.manual_seed(0)
    device, dtype = (
        ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    )
    sizes = sizes or Sizes()
    with torch.device(device):
        model = Llama(sizes).eval().requires_grad_(False).to(dtype)
        return model, torch.randint(sizes.words, (batch, tokens))


def prefill() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and two prompts of 512 words."""
    return built(2, 512)


def short() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and sixteen prompts of one word: as many rows as a step of decoding has."""
    return built(16, 1)


def small() -> tuple[nn.Module, torch.Tensor]:
    """Return a tiny model, for a look on a machine without a GPU."""
    return built(1, 16, Sizes(width=64, heads=4, hidden=160, layers=2, words=128))
