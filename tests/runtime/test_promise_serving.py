"""Whatever a log holds, a call returns the right result, says once why, and tunes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import autosched
from autosched.runtime import choice, tensor
from autosched.runtime.catalog import load_catalog
from autosched.runtime.default import Default, default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.errors import Miss, MissWarning, WrongDevice, WrongDtype, WrongShape
from autosched.runtime.tuned import Tuned
from autosched.te import IllegalExpression
from autosched.te.operators import matmul
from measure.log import LogWriter
from measure.record import TrialRecord
from search_space import target as targets
from search_space.target import Target
from search_space.workload import Workload

WORK = matmul(64, 64, 64, dtype="float16")
CPU = torch.device("cpu")
Make = Callable[..., TrialRecord]
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")

#: What is wrong with a record, and what is said of it.
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "another GPU": ({"gpu": "NVIDIA A100"}, "1 of another GPU"),
    "another rendering": ({"rendering_version": 1}, "1 of another rendering version"),
    "no evidence": ({"evidence": None}, "1 without evidence of being right"),
    "another program": ({"program": "0" * 16}, "it renders to another program"),
    "no schedule": ({"schedule": {"steps": "x"}}, "its schedule does not replay"),
    "does not compile": ({}, "its record does not run"),
}


@pytest.fixture(autouse=True)
def _defaults_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults of one workload take a second, and are the same in every test."""
    monkeypatch.setattr(choice, "default_schedules", _defaults)


def _defaults(workload: Workload, target: Target) -> tuple[Default, ...]:
    assert target.name == "h200"
    return _known(workload)[:1]


@cache
def _known(workload: Workload) -> tuple[Default, ...]:
    return default_schedules(workload, targets.load("h200"))


def served_right_with_one_warning(made: Tuned, reason: str) -> None:
    a, b = torch.randn(2, 64, 64, dtype=torch.float16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert torch.equal(made._run(WORK, {"a": a, "b": b}, None, CPU).output, a @ b)
    [warning] = caught
    assert warning.category is MissWarning
    assert reason in str(warning.message)


@no_gpu
@pytest.mark.parametrize("wrong", WRONG)
def test_a_record_that_cannot_serve_makes_way(
    record: Make, here: Setting, tmp_path: Path, wrong: str
) -> None:
    changes, reason = WRONG[wrong]
    path = tmp_path / "log.jsonl"
    with LogWriter(path) as log:
        log.append(record(WORK, **changes))
    before = path.read_bytes()
    catalog = load_catalog(path, here.place)
    served_right_with_one_warning(Tuned(catalog, here), reason)
    assert path.read_bytes() == before
    strict = Tuned(catalog, here, on_miss="error")
    if wrong != "does not compile":
        with pytest.raises(Miss, match=reason):
            strict._engine(WORK, CPU)


@no_gpu
def test_a_damaged_record_makes_way(record: Make, here: Setting, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with LogWriter(path) as log:
        log.append(record(WORK))
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(held)
    made = Tuned(load_catalog(path, here.place), here)
    served_right_with_one_warning(made, "the log has no record of this workload")
    assert "line 1 is damaged: " in made.summary()


@no_gpu
def test_wrong_use_is_one_clear_sentence(
    here: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.jsonl").touch()
    made = Tuned(load_catalog(tmp_path / "log.jsonl", here.place), here, on_miss="serve")
    half, double = torch.zeros(4, 4, dtype=torch.float16), torch.zeros(4, 4, dtype=torch.float64)
    monkeypatch.setattr(tensor, "interpreting", lambda: False)
    with pytest.raises(WrongDevice, match=r"^a is on cpu; served kernels need a GPU: move it to"):
        made.matmul(half, half)
    monkeypatch.setattr(tensor, "interpreting", lambda: True)
    with pytest.raises(WrongDtype, match=r"^a is torch\.float64; kernels here take float16, bfl"):
        made.matmul(double, double)
    with pytest.raises(WrongDtype, match=r"^A is torch\.float64; it must be float16$"):
        made.compute(WORK, torch.zeros(64, 64, dtype=torch.float64), torch.zeros(64, 64).half())
    assert made.matmul(half[:0], half).shape == (0, 4)
    assert torch.equal(made.matmul(half[:, :0], half[:0]), torch.zeros(4, 4).half())
    with pytest.raises(WrongShape, match=r"^A has shape \(0, 64\); it must be \(64, 64\)$"):
        made.compute(WORK, torch.zeros(0, 64).half(), torch.zeros(64, 64).half())
    with pytest.raises(IllegalExpression, match="m has extent 0, the least is 1"):
        matmul(0, 4, 4, dtype="float16")


@no_gpu
def test_nothing_is_made_ready_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(WrongDevice, match="this machine has no GPU"):
        autosched.load(tmp_path / "log.jsonl").warm()
