"""A worker that breaks costs one program, with its exact kind, and the next one is healthy."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import hand_kernels as kernels
import pytest

from measure.comparison import Comparison
from measure.guard import RETAKES
from measure.measurement import Conditions, Failed, Failure, Timed, Timing
from measure.runner import Runner
from measure.service import NoDevice
from search_space import target as targets
from search_space.program import Program

H200 = targets.load("h200")
WORKLOAD = kernels.workload(16, 32, 48)
TILE = (16, 32, 16)


def program(text: str = kernels.MATMUL, us: int = 10) -> Program:
    return kernels.pointer_matmul(WORKLOAD, TILE, text=f"{text}    # {us} us\n")


def in_kernel(line: str) -> Program:
    """The matmul with a line of Python run where the kernel starts."""
    return program(kernels.MATMUL.replace("    acc = tl.zeros", f"    {line}\n    acc = tl.zeros"))


@pytest.fixture(scope="module")
def reasons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file whose number the worker takes for what holds the device's clock down."""
    path = tmp_path_factory.mktemp("watch") / "reasons"
    path.write_text("0")
    return path


@pytest.fixture(scope="module")
def runner(reasons: Path) -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setenv("CPU_WORKER_REASONS", str(reasons))
        patch.setenv("OMP_NUM_THREADS", "1")
        running = Runner(WORKLOAD, H200, "cpu", timeout_s=8, module="cpu_worker")
        yield running
        running.close()


def test_a_right_program_is_timed_with_evidence(runner: Runner) -> None:
    timed = runner.measure(program(us=12))
    assert isinstance(timed, Timed)
    assert timed.latency_us == 12
    assert timed.timing.samples_us == (12.0,) * 7
    assert timed.evidence is not None
    assert timed.evidence.seeds == (0, 1)
    assert timed.evidence.max_error <= 1
    assert not timed.predicted


def test_a_slow_program_is_given_up_after_a_quick_look(runner: Runner) -> None:
    timed = runner.measure(program(us=100), abort_above_us=30)
    assert isinstance(timed, Timed)
    assert timed.timing.samples_us == (100.0,) * 3


#: Writes into every socket of its process, the pipe of results among them.
GARBAGE = (
    "[__import__('os').write(int(fd), b'garbage' * 9)"
    " for fd in __import__('os').listdir('/proc/self/fd')"
    " if 'socket' in str(__import__('pathlib').Path('/proc/self/fd/' + fd).resolve())]"
)
HOSTILE = {
    "abort": (in_kernel("__import__('os').abort()"), Failure.RUNTIME, "SIGABRT"),
    "exit": (in_kernel("__import__('os')._exit(0)"), Failure.RUNTIME, "exit code 0"),
    "killed": (
        in_kernel("__import__('os').kill(__import__('os').getpid(), 9)"),
        Failure.RUNTIME,
        "was killed",
    ),
    "endless": (in_kernel("[0 for _ in iter(int, 1)]"), Failure.TIMEOUT, "more than 8 s"),
    "raises": (in_kernel("1 / 0"), Failure.RUNTIME, "division by zero"),
    "garbage": (in_kernel(GARBAGE), Failure.RUNTIME, "garbage"),
    "syntax": (program("def kernel(a, b, c:\n"), Failure.COMPILE, "SyntaxError"),
    "wrong": (
        program(kernels.MATMUL.replace("range(0, EK, BK)", "range(BK, EK, BK)")),
        Failure.CORRECTNESS,
        "times the tolerance",
    ),
    "wrong later": (
        in_kernel("tl.calls = getattr(tl, 'calls', 0) + 1\n    if tl.calls > 6: return"),
        Failure.CORRECTNESS,
        "after timing",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs(runner: Runner, name: str) -> None:
    hostile, kind, said = HOSTILE[name]
    failed = runner.measure(hostile)
    assert isinstance(failed, Failed), failed
    assert failed.kind is kind
    assert said in failed.detail
    assert "\n" not in failed.detail
    assert isinstance(runner.measure(program()), Timed)


def medians(comparison: Comparison) -> list[float | None]:
    return [e.latency_us if isinstance(e, Timing) else None for e in comparison.entrants]


def test_compare_ranks_and_ties(runner: Runner) -> None:
    entrants = [program(us=20), program(us=10), program(us=10), program(us=40)]
    result = runner.compare(entrants, library=True, rounds=10, seeds=(5, 6, 7))
    assert medians(result) == [20, 10, 10, 40]
    assert result.best == 1
    assert result.ties == (1, 2)
    assert isinstance(result.library, Timing)
    assert [r.median for r in result.ratios if r] == [2.5, 5, 5, 1.25]
    assert (result.rounds, result.seeds) == (10, (5, 6, 7))


def test_compare_drops_and_names_what_fails(runner: Runner) -> None:
    wrong, _, _ = HOSTILE["wrong"]
    dying, _, _ = HOSTILE["abort"]
    result = runner.compare(
        [program(us=20), wrong, program(us=10), dying], library=False, rounds=6, seeds=(5,)
    )
    assert medians(result) == [20, None, 10, None]
    kinds = [e.kind for e in result.entrants if isinstance(e, Failed)]
    assert kinds == [Failure.CORRECTNESS, Failure.RUNTIME]
    assert result.best == 2
    assert result.library is None
    assert result.ratios == (None,) * 4


def test_compare_finds_out_who_dies_in_the_middle(runner: Runner) -> None:
    late = in_kernel(
        "tl.turns = getattr(tl, 'turns', 0) + 1\n    if tl.turns > 3: __import__('os').abort()"
    )
    result = runner.compare([program(us=20), late], library=True, rounds=6, seeds=(5,))
    assert medians(result) == [20, None]
    assert isinstance(result.library, Timing)


def test_no_worker_is_no_device() -> None:
    with pytest.raises(NoDevice, match=r"cuda:0: .*no_such_worker"):
        Runner(WORKLOAD, H200, "cuda:0", module="measure.no_such_worker")


def test_a_time_of_a_disturbed_device_is_quarantined(runner: Runner, reasons: Path) -> None:
    def measured() -> Conditions | None:
        timed = runner.measure(program())
        assert isinstance(timed, Timed)
        assert timed.quarantined == bool(timed.conditions and timed.conditions.trouble)
        return timed.conditions

    assert measured() == Conditions(1980, 0.0, 0, "")
    reasons.write_text("64")
    trouble = "the clock is held down: hardware thermal slowdown"
    assert measured() == Conditions(1980, 0.0, RETAKES, trouble)
    assert measured() == Conditions(1980, 0.0, 0, trouble)
    held = runner.compare([program(us=10), program(us=20)], library=False, rounds=6, seeds=(5, 6))
    assert held.trouble == trouble
    assert (held.best, held.rounds) == (0, 6)
    reasons.write_text("4")
    assert measured() == Conditions(1980, 0.0, 0, "")
    assert runner.compare([program()], library=False, rounds=6, seeds=(5,)).trouble == ""


def test_a_closed_runner_measures_no_more() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        short = Runner(WORKLOAD, H200, "cpu", module="cpu_worker")
    short.close()
    with pytest.raises(NoDevice, match="it was closed"):
        short.measure(program())


def test_the_lock_is_held_over_workers_that_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("CPU_WORKER_UUID", "GPU-42")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    running = Runner(WORKLOAD, H200, "cpu", module="cpu_worker")
    lock = tmp_path / "autosched" / "gpu-GPU-42.lock"

    def is_free() -> bool:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    assert not is_free()
    assert isinstance(running.measure(HOSTILE["exit"][0]), Failed)
    assert not is_free()
    assert isinstance(running.measure(program()), Timed)
    assert not is_free()
    running.close()
    assert is_free()
