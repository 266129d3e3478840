"""ResNet-50 in plain torch, with random weights (He et al., arXiv:1512.03385, table 1; the stride
lies in the 3x3, as in torchvision).

    autosched extract examples/resnet50.py:batch32 --fold -o tasks.yaml
    autosched tune tasks.yaml --budget-seconds 500 -o resnet50.jsonl
    python -m autosched.bench.model_run examples/resnet50.py:batch32 --fold --log resnet50.jsonl
"""

from __future__ import annotations

import torch
from torch import nn


def _conv(inner: int, outer: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution and the normalisation behind it."""
    conv = nn.Conv2d(inner, outer, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer))


def _cut(inner: int, outer: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return the same with what is below zero cut off."""
    return _conv(inner, outer, size, stride).append(nn.ReLU())


class Bottleneck(nn.Module):
    """1x1 to fewer channels, 3x3, 1x1 to four times as many, and what came in on top."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.reduce = _cut(inner, width, 1)
        self.spatial = _cut(width, width, 3, stride)
        self.expand = _conv(width, outer, 1)
        same = stride == 1 and inner == outer
        self.shortcut = nn.Identity() if same else _conv(inner, outer, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 4 width, h / stride, w / stride] of [n, inner, h, w]."""
        y = self.expand(self.spatial(self.reduce(x)))
        return torch.relu(y + self.shortcut(x))


class ResNet50(nn.Module):
    """Four stages of bottlenecks between a stem and a linear classifier."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = _cut(3, 64, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        inner = 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for block in range(depth):
                blocks.append(Bottleneck(inner, width, 2 if stage and not block else 1))
                inner = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inner, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [n, classes] of images [n, 3, h, w]."""
        x = self.blocks(self.pool(self.stem(x)))
        return self.classifier(x.mean((2, 3)))


def built(batch: int, size: int = 224) -> tuple[nn.Module, torch.Tensor]:
    """Return the model and its input, channels last: float16 on a GPU, float32 without one."""
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.float16) if torch.cuda.is_available() else ("cpu", torch.float32)
    model = ResNet50().eval().requires_grad_(False)
    model = model.to(device, dtype, memory_format=torch.channels_last)
    x = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
    return model, x.to(memory_format=torch.channels_last)


def batch1() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and one image."""
    return built(1)


def batch32() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and 32 images."""
    return built(32)


def small() -> tuple[nn.Module, torch.Tensor]:
    """Return the model and one image of 64 x 64, for a look on a machine without a GPU."""
    return built(1, 64)
