"""SIGKILL at any moment costs a log at most the record being written; what was synced stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Forks writers and kills each at a random moment after none to three records. A writer says a
#: byte for every record that ``append`` has returned from. The checks are those of the promise.
KILLER = """
import os, random, signal, sys, time
sys.path[:0] = sys.argv[3:]
import test_log
from pathlib import Path
from measure.log import LogWriter, read

path, kills = Path(sys.argv[1]), int(sys.argv[2])
rng = random.Random(kills)
path.touch()

def write(said):
    with LogWriter(path) as writer:
        number = len(read(path).trials)
        while True:
            writer.append(test_log.trial(number))
            os.write(said, b".")
            number += 1

total = torn = waited = 0
for _ in range(kills):
    before = path.read_bytes()
    kept = len(read(path).records)
    heard, said = os.pipe()
    writer = os.fork()
    if not writer:
        write(said)
    os.close(said)
    acknowledged, wanted = 0, rng.randrange(4)
    while acknowledged < wanted:
        acknowledged += len(os.read(heard, wanted - acknowledged))
    waited += wanted
    time.sleep(rng.uniform(0, 0.02))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    acknowledged += len(os.read(heard, 1 << 16))
    os.close(heard)
    after, contents = path.read_bytes(), read(path)
    whole = before[: before.rfind(b"\\n") + 1]
    assert after.startswith(whole), "a synced record changed"
    made = len(contents.records) - kept
    assert acknowledged <= made <= acknowledged + 1, (acknowledged, made)
    assert len(contents.damage) <= 1
    assert [t.trial for t in contents.trials] == list(range(len(contents.trials)))
    total, torn = len(contents.records), torn + bool(contents.damage)
with LogWriter(path):
    assert read(path).damage == ()
assert total >= waited > kills
print(kills, total, torn)
"""


def kill(path: Path, kills: int) -> tuple[int, int, int]:
    command = [sys.executable, "-c", KILLER, path, str(kills), str(HERE), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counted, total, torn = map(int, done.stdout.split())
    return counted, total, torn


def test_25_kills(tmp_path: Path) -> None:
    counted, _, _ = kill(tmp_path / "log.jsonl", 25)
    assert counted == 25


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_1000_kills(tmp_path: Path) -> None:
    # In logs of their own, so that reading them stays short.
    totals = [kill(tmp_path / f"log-{n}.jsonl", 50 + n % 2) for n in range(20)]
    assert sum(counted for counted, _, _ in totals) >= 1000
    print("kills, records, torn tails:", [sum(column) for column in zip(*totals, strict=True)])
