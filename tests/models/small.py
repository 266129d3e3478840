"""A model for tests: every kind of layer, small, in float16 where a kernel is to serve it."""

import torch
from torch import nn


class Small(nn.Module):
    """Convolutions with channels last, a grouped one, linear layers, and a product of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.second = nn.Conv2d(16, 16, 3, padding="same", groups=16)
        self.third = nn.Conv2d(16, 16, 3, padding=1, padding_mode="circular")
        self.head = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = self.third(self.second(x))
        x = x.flatten(2).transpose(1, 2)
        scores = torch.bmm(x, x.transpose(1, 2).contiguous())
        return self.head(scores.softmax(-1) @ x)


def built(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = Small().eval().to(dtype).to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 4, 4).to(dtype).to(memory_format=torch.channels_last)
    return model, x


def run() -> None:
    model, x = built()
    model(x)
    model(x)


def broken() -> None:
    raise OSError("no weights here")
