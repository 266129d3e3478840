from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autosched.bench.contest import Contest
from autosched.bench.referee import GpuReferee, outcome
from autosched.te.operators import matmul
from measure.gpu_lock import GpuLock
from measure.service import GpuBusy, Patience
from search_space.program import Buffer, Program

ROOT = Path(__file__).parents[2]
WORK = matmul(16, 16, 16, dtype="float16")
PROGRAM = Program((Buffer("C", (4,), (1,), "float32", "output"),), (), 1)


def reply(**times: list[float]) -> dict[str, object]:
    nothing: dict[str, object] = {"host_us": {}, "setup_s": {}, "failures": {}, "rel_err": {}}
    return {"times_us": {name: tuple(rounds) for name, rounds in times.items()}} | nothing


def test_ratios_are_paired_by_round() -> None:
    contest = Contest(WORK, {"ours": PROGRAM}, ("torch",))
    # Both drift by half: the medians differ by little, each pair by a fifth.
    made = outcome(contest, reply(ours=[10.0, 12.5, 15.0], torch=[12.0, 15.0, 18.0]), {})
    assert made.times_us["ours"].value == 12.5
    assert made.ratios["torch"].value == pytest.approx(1.2)
    assert made.ratios["torch"].low == pytest.approx(1.2)
    assert made.ratios["ours"].value == 1.0


def test_without_our_program_the_first_library_is_the_yardstick() -> None:
    contest = Contest(WORK, {}, ("torch", "inductor"))
    made = outcome(contest, reply(torch=[10.0], inductor=[5.0]), {})
    assert made.ratios["inductor"].value == 0.5


def test_where_the_yardstick_failed_there_are_times_but_no_ratios() -> None:
    contest = Contest(WORK, {"ours": PROGRAM}, ("torch",))
    made = outcome(contest, reply(torch=[10.0]), {"ours": "the process died of SIGSEGV"})
    assert made.times_us["torch"].value == 10.0
    assert made.ratios == {}
    assert made.failures == {"ours": "the process died of SIGSEGV"}


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("name", ["exits", "hangs", "sticky"])
def test_an_entrant_that_breaks_the_child_is_taken_out(name: str) -> None:
    contest = Contest(WORK, {"ours": PROGRAM, name: PROGRAM}, ("torch",))
    with GpuReferee(timeout_s=3.0, module="hostile_worker") as referee:
        made = referee(contest)
        assert set(made.times_us) == {"ours", "torch"}
        assert set(made.failures) == {name}
        assert made.ratios["torch"].value == 1.0


@pytest.mark.usefixtures("hostile")
def test_where_nobody_is_named_the_comparison_is_held_again_with_care() -> None:
    contest = Contest(WORK, {"ours": PROGRAM, "anonymous": PROGRAM}, ("torch",))
    with GpuReferee(module="hostile_worker") as referee:
        made = referee(contest)
    assert set(made.times_us) == {"ours", "torch"}
    assert made.failures["anonymous"].startswith("the process ended with exit code 3")


@pytest.mark.usefixtures("hostile")
def test_a_child_that_always_breaks_ends_the_comparison() -> None:
    contest = Contest(WORK, {"ours": PROGRAM, "hopeless": PROGRAM}, ("torch",))
    with GpuReferee(module="hostile_worker") as referee:
        made = referee(contest)
    assert made.times_us == {}
    assert set(made.failures) == {"ours", "hopeless", "torch"}


HOLDER = """
import sys
from measure.gpu_lock import GpuLock
GpuLock(sys.argv[1]).acquire()
print("held", flush=True)
sys.stdin.read()
"""
TAKEN = """
from measure.gpu_lock import GpuLock
from measure.service import Patience
"""
GPU = "GPU-of-a-test"
CONTEST = Contest(WORK, {"ours": PROGRAM}, ("torch",))


@pytest.fixture
def locks(hostile: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU whose lock lies in a folder of the test's own."""
    del hostile
    monkeypatch.setenv("HOSTILE_UUID", GPU)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.mark.usefixtures("locks")
def test_a_comparison_waits_for_whoever_measures_on_the_gpu() -> None:
    said: list[str] = []
    command = [sys.executable, "-c", HOLDER, GPU]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        name = f"process {other.pid} (-c)"
        with (
            GpuReferee(module="hostile_worker", patience=Patience(0.0)) as referee,
            pytest.raises(GpuBusy, match=f"{GPU} is measured on by process"),
        ):
            referee(CONTEST)

        def leave(text: str) -> None:
            said.append(text)
            other.kill()

        with GpuReferee(module="hostile_worker", patience=Patience(60.0, leave)) as referee:
            assert set(referee(CONTEST).times_us) == {"ours", "torch"}
    assert said == [f"{GPU} is measured on by {name}: waiting for it"]


@pytest.mark.usefixtures("locks")
def test_a_tuner_of_the_same_process_is_not_waited_for() -> None:
    lock = GpuLock(GPU)
    lock.acquire()
    with GpuReferee(module="hostile_worker", patience=Patience(0.0)) as referee:
        assert set(referee(CONTEST).times_us) == {"ours", "torch"}
    lock.release()


@pytest.mark.usefixtures("locks")
def test_the_gpu_is_left_to_others_after_each_comparison_even_one_that_breaks() -> None:
    broken = Contest(WORK, {"hopeless": PROGRAM}, ())
    with GpuReferee(module="hostile_worker") as referee:
        for contest in (CONTEST, broken):
            referee(contest)
            taken = f"{TAKEN}GpuLock({GPU!r}).acquire(Patience(0.0))"
            command = [sys.executable, "-c", taken]
            subprocess.run(command, check=True, cwd=ROOT, timeout=60)
