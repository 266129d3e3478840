"""A comparison on the CPU: a clock that is made up, programs that are torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch

from autosched.bench import worker
from autosched.bench.inductor import PlainForm
from autosched.te.operators import matmul
from measure.library import Form, library_forms
from search_space.workload import Workload

WORK = matmul(8, 16, 32, dtype="float32", epilogue=("bias", "relu"))
Compute = Callable[[Sequence[torch.Tensor], torch.Tensor], Any]


class Launcher:
    """Stands for a compiled program, which here is the function that computes."""

    def __init__(self, program: Compute, device: torch.device) -> None:
        self._compute = program

    def prepare(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> Launcher:
        if not hasattr(self, "repeat"):
            self.repeat = lambda: None
        self.repeat = partial(self._compute, inputs, output)
        return self


class Clock:
    """A time for each call, by what is called."""

    def __init__(self, l2_bytes: int) -> None:
        del l2_bytes

    def batch_us(self, pieces: Sequence[Any]) -> list[float | None]:
        return [getattr(piece.func, "time_us", 10.0) for piece in pieces]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("set_device", "get_device_properties", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    for name, value in (
        ("Launcher", Launcher),
        ("GpuTimer", Clock),
        ("healthy", lambda _: True),
        ("_prepared", lambda launcher, *bound: launcher.prepare(*bound).repeat),
    ):
        monkeypatch.setattr(worker, name, value)


def play(workload: Workload, libraries: Sequence[str] = (), **programs: Compute) -> dict[str, Any]:
    request = {
        "workload": workload,
        "names": list(programs),
        "programs": list(programs.values()),
        "libraries": list(libraries),
        "rounds": 6,
        "seeds": [0, 1, 2],
        "verify": [3, 4, 5, 6, 7],
        "device": "cpu",
        "careful": False,
    }
    return worker.handle(request, lambda _: None)


def right(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
    library_forms(WORK)[0].call(inputs, output)


class RightUntil:
    """Computes what it should until it has run on so many data."""

    def __init__(self, data: int) -> None:
        self._data = data
        self._seen: list[int] = []

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        right(inputs, output)
        first = int(inputs[0].view(torch.int32)[0, 0])
        if first not in self._seen:
            self._seen.append(first)
        if len(self._seen) > self._data:
            output[0, 0] += 1.0


class Timed:
    """A form of the library that takes so long."""

    def __init__(self, time_us: float, *, off: float = 0.0) -> None:
        self.time_us, self._off = time_us, off

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        right(inputs, output)
        output += self._off


def test_what_is_right_on_every_seed_has_times_and_evidence() -> None:
    reply = play(WORK, ("torch",), ours=right)
    assert reply["failures"] == {}
    assert {name: len(times) for name, times in reply["times_us"].items()} == {
        "ours": 6,
        "torch": 6,
    }
    assert reply["verified_seeds"] == {"ours": 5}
    assert 0 <= reply["max_error"]["ours"] <= 1
    assert reply["forms"]["torch"] in [form.name for form in library_forms(WORK)]


@pytest.mark.parametrize(("data", "seed"), [(2, 2), (6, 6)])
def test_what_is_wrong_on_any_seed_has_no_time(data: int, seed: int) -> None:
    reply = play(WORK, ("torch",), ours=RightUntil(data))
    assert f"wrong on seed {seed}: " in reply["failures"]["ours"]
    assert set(reply["times_us"]) == {"torch"}


def test_what_changes_its_inputs_has_no_time() -> None:
    def careless(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        right(inputs, output)
        inputs[0][0, 0] = 0.5

    assert "changed its inputs" in play(WORK, ours=careless)["failures"]["ours"]


def test_the_fastest_form_that_is_right_stands_for_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        raise NotImplementedError("no such product")

    forms = (
        Form("slow", Timed(9.0)),
        Form("fast", Timed(5.0)),
        Form("wrong", Timed(1.0, off=1.0)),
        Form("none", refuses),
    )
    monkeypatch.setattr(worker, "library_forms", lambda _: forms)
    reply = play(WORK, ("torch",), ours=right)
    assert reply["forms"] == {"torch": "fast"}
    assert set(reply["times_us"]["torch"]) == {5.0}
    wrong, none = reply["refused"]["torch"]
    assert wrong.startswith("wrong: wrong on seed 0")
    assert none.startswith("none: ")
    assert "no such product" in none


def test_where_no_form_is_right_the_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = (Form("one", Timed(1.0, off=1.0)), Form("two", Timed(1.0, off=2.0)))
    monkeypatch.setattr(worker, "library_forms", lambda _: forms)
    reply = play(WORK, ("torch",))
    assert "one: wrong on seed 0" in reply["failures"]["torch"]
    assert "two: wrong on seed 0" in reply["failures"]["torch"]


def test_the_compiler_goes_on_to_the_next_form(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def stand_in(workload: Workload, function: Any) -> Any:
        compiled.append(workload.label)
        return function

    monkeypatch.setattr(worker, "compiled", stand_in)
    workload = matmul(8, 16, 32, dtype="float16", epilogue=("softmax",))
    reply = play(workload, ("inductor",))
    assert reply["failures"] == {}
    first, *_ = reply["refused"]["inductor"]
    assert first.startswith("mm(out_dtype=float32), softmax: ")
    assert reply["forms"]["inductor"].startswith("matmul")
    assert len(compiled) == 1 + len(reply["refused"]["inductor"])  # each is compiled once


def test_the_compilers_forms_compete_until_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_in(workload: Workload, function: Any) -> Any:
        del workload
        return function

    def plain(*inputs: torch.Tensor) -> torch.Tensor:
        output = torch.empty(8, 16)
        right(inputs, output)
        return output

    forms = tuple(PlainForm(name, plain, name == "last") for name in ("one", "two", "last"))
    monkeypatch.setattr(worker, "compiled", stand_in)
    monkeypatch.setattr(worker, "plain_forms", lambda *_: forms)
    assert play(WORK, ("inductor",))["refused"] == {"inductor": []}
    monkeypatch.setattr(worker, "COMPILE_S", 0.0)
    assert play(WORK, ("inductor",))["refused"] == {"inductor": ["two: not compiled in 0 s"]}
