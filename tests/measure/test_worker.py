"""What a worker keeps of several workloads: as much as memory allows, the one at work always."""

from __future__ import annotations

from typing import Any

import hand_kernels as kernels
import pytest
import torch

import measure.worker
from measure.job import Compare, Measure, Open, Opened, Release, Released, Rounds
from measure.measurement import Cause, Failed, Failure
from measure.session import Session
from measure.worker import Worker

OPENS = [Open(kernels.workload(16, 16, 16 * n), None, "cpu", (0, 1)) for n in (1, 2, 3)]
PROGRAM = kernels.pointer_matmul(OPENS[0].workload, (16, 16, 16))


@pytest.fixture
def worker() -> Worker:
    return Worker()


def ask(worker: Worker, request: Any) -> Any:
    return worker.handle(request, lambda _: None)


def held(worker: Worker) -> list[str]:
    return [key for key, *_ in worker._sessions]


def keys(*numbers: int) -> list[str]:
    return [OPENS[n].workload.key for n in numbers]


def test_what_was_open_before_is_opened_again_as_it_was(worker: Worker) -> None:
    assert isinstance(ask(worker, OPENS[0]), Opened)
    (first,) = worker._sessions.values()
    ask(worker, OPENS[1])
    assert held(worker) == keys(0, 1)
    ask(worker, OPENS[0])
    assert held(worker) == keys(1, 0)
    assert [*worker._sessions.values()][-1] is first
    assert ask(worker, Release()) == Released()
    assert held(worker) == []


def test_the_longest_unused_goes_where_they_take_too_much(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for request in OPENS:
        ask(worker, request)
    sizes = [session.held_bytes for session in worker._sessions.values()]
    assert sizes == sorted(sizes)
    assert sizes[0] > 3 * 4 * 16 * 16
    monkeypatch.setattr(measure.worker, "HELD_BYTES", sizes[2])
    ask(worker, OPENS[0])
    assert held(worker) == keys(2, 0)
    monkeypatch.setattr(measure.worker, "HELD_BYTES", 0)
    ask(worker, OPENS[1])
    assert held(worker) == keys(1)


def test_data_that_find_no_room_beside_others_are_made_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crowded(request: Open, ours: Any = frozenset(), beside: Session | None = None) -> Session:
        if beside is not None:
            raise torch.OutOfMemoryError
        return Session(request, ours)

    ask(worker, OPENS[0])
    monkeypatch.setattr(measure.worker, "Session", crowded)
    assert isinstance(ask(worker, OPENS[1]), Opened)
    assert held(worker) == keys(1)


LACKED = Failed(Failure.RUNTIME, "out of device memory", cause=Cause.OUT_OF_MEMORY)


@pytest.mark.parametrize(
    ("request_", "lacked"),
    [
        (Measure(PROGRAM), LACKED),
        (Compare((PROGRAM,), False, 3, (5,)), Rounds(((),), ((0, LACKED),))),
    ],
)
def test_a_program_that_lacks_memory_is_tried_again_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, request_: Any, lacked: Any
) -> None:
    seen: list[list[str]] = []

    def answer(session: Session, request: Any, note: Any) -> Any:
        seen.append(held(worker))
        return lacked

    monkeypatch.setattr(measure.worker, "_answer", answer)
    ask(worker, OPENS[0])
    ask(worker, OPENS[1])
    assert ask(worker, request_) == lacked
    assert seen == [keys(0, 1), keys(1)]
    assert ask(worker, request_) == lacked
    assert seen[2:] == [keys(1)]
