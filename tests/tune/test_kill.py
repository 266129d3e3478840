"""SIGKILL at any moment: what was synced stays, and a restart goes on as if nothing had been."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from measure.log import read
from measure.record import RunRecord

ROOT = Path(__file__).parents[2]
SPEC = "matmul:m=32,n=64,k=128,dtype=float16"
OTHER = "matmul:m=64,n=64,k=64,dtype=float16,weight=2"
#: By name, the arguments of short runs; the second trains trees between its batches, the third is
#: of two that take turns.
SEARCHES = {
    "random": [SPEC, "--strategy", "random", "--trials", "32", "--effort", "quick"],
    "evolution": [SPEC, "--trials", "24", "--effort", "quick"],
    "turns": [SPEC, OTHER, "--strategy", "random", "--total-trials", "48", "--effort", "quick"],
}
#: Chains of kills are this long: the next one hits the restart after the last.
LONGEST_CHAIN = 4


class Nursery:
    """Starts runs in processes of their own; see ``nursery.py``."""

    def __init__(self, folder: Path) -> None:
        self.acknowledged = folder / "acknowledged"
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py")), str(self.acknowledged)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], kill_after_s: float | None = None) -> int:
        """Run ``autosched``, perhaps kill it, and return its exit code, -9 if it was killed."""
        child = int(self._ask(json.dumps(arguments)))
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(int(self._ask("reap")))

    def synced(self) -> int:
        """Return the size of the log when it was last synced."""
        return int(self.acknowledged.read_text()) if self.acknowledged.exists() else 0

    def close(self) -> str:
        """End it, and return what runs said on standard error."""
        return self._process.communicate()[1]

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path)
    yield made
    made.close()


def proposals(log: Path) -> list[tuple[str, int, str, dict[str, object]]]:
    trials = sorted(read(log).trials, key=lambda trial: (trial.workload.key, trial.trial))
    return [(t.workload.key, t.trial, t.program, t.schedule) for t in trials]


def lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


class Victim:
    """One search that is killed again and again, against the same search left in peace."""

    def __init__(self, nursery: Nursery, folder: Path, search: str) -> None:
        self.nursery = nursery
        self.log = folder / f"{search}.jsonl"
        whole = folder / f"{search}-whole.jsonl"
        self._arguments = ["tune", *SEARCHES[search], "--device", "model", "-q", "-o"]
        assert nursery.run(["--version"]) == 0  # it is up
        started_s = time.monotonic()
        assert nursery.run([*self._arguments, str(whole)]) == 0
        #: About what a run takes; follows how busy the machine is, so that most kills hit.
        self.seconds = time.monotonic() - started_s
        self.expected = proposals(whole)

    def chain(self, rng: Random, most: int) -> int:
        """Start, kill and go on until done; return how many kills there were."""
        self.log.unlink(missing_ok=True)
        self.nursery.acknowledged.unlink(missing_ok=True)
        kills, kept = 0, b""
        for _ in range(min(most, rng.randint(1, LONGEST_CHAIN))):
            if self._run(rng.uniform(0.0, self.seconds)) != -signal.SIGKILL:
                self.seconds *= 0.9
                break
            self.seconds *= 1.02
            kills += 1
            kept = self._survived(kept)
        code = self._run(None)
        assert code == 0
        assert self.log.read_bytes().startswith(kept)
        assert read(self.log).damage == ()
        assert proposals(self.log) == self.expected
        return kills

    def _run(self, kill_after_s: float | None) -> int:
        # Before its first line is on the disk there is no run to go on with.
        begun = self.log.exists() and any(
            isinstance(record, RunRecord) for record in read(self.log).records
        )
        options = [str(self.log), *(["--resume"] if begun else [])]
        return self.nursery.run([*self._arguments, *options], kill_after_s)

    def _survived(self, before: bytes) -> bytes:
        """Check what a kill left of a log that held ``before``, and return its whole lines."""
        data = self.log.read_bytes() if self.log.exists() else b""
        synced = max(len(before), self.nursery.synced())
        assert data[: len(before)] == before
        assert len(data) >= synced
        # At most the record that was being written is there in part, or whole and not yet synced.
        assert lines(data[synced:]) <= 1
        contents = read(self.log) if data else None
        assert contents is None or all(d.line == lines(data) for d in contents.damage)
        return data[: data.rfind(b"\n") + 1]


def killed(nursery: Nursery, folder: Path, wanted: dict[str, int], seed: int) -> dict[str, int]:
    """Kill so many runs of each search at random moments; return how many were killed."""
    rng = Random(seed)
    count = dict.fromkeys(wanted, 0)
    for search, enough in wanted.items():
        victim = Victim(nursery, folder, search)
        while count[search] < enough:
            count[search] += victim.chain(rng, enough - count[search])
    return count


def test_25_kills_at_random_moments(nursery: Nursery, tmp_path: Path) -> None:
    wanted = {"random": 14, "evolution": 5, "turns": 6}
    assert killed(nursery, tmp_path, wanted, 25) == wanted
    assert "Traceback" not in nursery.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_1000_kills_at_random_moments(nursery: Nursery, tmp_path: Path) -> None:
    wanted = {"random": 700, "evolution": 100, "turns": 200}
    assert killed(nursery, tmp_path, wanted, 1000) == wanted
    assert "Traceback" not in nursery.close()
