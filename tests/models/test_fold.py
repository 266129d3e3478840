"""Folding changes what is computed by rounding alone, and can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import autosched
from autosched.models.extract import extract
from autosched.models.fold import NotFoldable, fold


class Model(nn.Module):
    """Two convolutions that take in what is behind them, and four that may not."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = nn.Sequential(nn.Conv2d(4, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.cut = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU())
        self.read_twice, self.norm = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
        self.called_twice, self.relu = nn.Conv2d(8, 8, 1), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.read_twice(self.cut(self.whole(x)))
        y = y + self.norm(y)
        return self.called_twice(self.relu(self.called_twice(y)))


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    made = Model()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.bias, module.weight):
                nn.init.normal_(tensor)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    return made.eval().to(memory_format=torch.channels_last)


X = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)


def test_what_is_behind_a_convolution_is_taken_in(model: Model) -> None:
    want, before = model(X), model.state_dict()
    folded = fold(model)
    assert folded.taken == {"whole.0": ("whole.1", "whole.2"), "cut.0": ("cut.1",)}
    torch.testing.assert_close(model(X), want)
    assert model.whole[0].weight.is_contiguous(memory_format=torch.channels_last)
    folded.restore()
    folded.restore()
    assert model.state_dict().keys() == before.keys()
    assert type(model.whole[0]) is nn.Conv2d
    assert torch.equal(model(X), want)


def test_norms_alone_leave_the_layers_of_torch(model: Model) -> None:
    want = model(X)
    assert fold(model, activations=False).taken == {"whole.0": ("whole.1",)}
    assert type(model.whole[0]) is nn.Conv2d
    torch.testing.assert_close(model(X), want)


def test_norms_in_training_stay(model: Model) -> None:
    assert fold(model.train()).taken == {}


def test_activations_are_extracted_as_epilogues(model: Model) -> None:
    fold(model)
    labels = [found.described.workload.label for found in extract(lambda: model(X)).found]
    assert sum(label.endswith("bias silu") for label in labels) == 1
    assert sum(label.endswith("bias relu") for label in labels) == 1


def test_accelerate_folds_and_restores(model: Model, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.touch()
    with torch.no_grad():
        want, names = model(X), list(model.state_dict())
        done = autosched.accelerate(model, log, X, fold=True)
        assert done.replaced == ()
        assert done.folded == {"whole.0": ("whole.1", "whole.2"), "cut.0": ("cut.1",)}
        torch.testing.assert_close(model(X), want)
        made = torch.compile(model, backend="aot_eager", fullgraph=True)(X)
        torch.testing.assert_close(made, want)
        done.restore()
        assert list(model.state_dict()) == names
        assert torch.equal(model(X), want)


def test_a_model_that_fails_is_left_as_it_was(model: Model, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.touch()
    with pytest.raises(RuntimeError):
        autosched.accelerate(model, log, torch.randn(3, 3), fold=True)
    assert type(model.whole[0]) is nn.Conv2d
    assert isinstance(model.whole[1], nn.BatchNorm2d)


def test_what_cannot_be_traced_is_said() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(NotFoldable, match=r"torch\.fx cannot trace the model"):
        fold(Branch())
