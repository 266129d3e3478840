"""Tests of autosched replay: equal, different with the first difference, and logs that lie."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main
from measure.log import line_of, read
from measure.record import RunRecord, TrialRecord

ROOT = Path(__file__).parents[2]


def replay(log: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", str(log), *arguments])


@pytest.fixture
def log(tuned, tmp_path: Path) -> Path:
    """A copy of the log of a run on the model."""
    path = tmp_path / "tuned.jsonl"
    path.write_bytes(tuned[1].read_bytes())
    return path


def rewrite(log: Path, change: Callable[[Any], Any]) -> None:
    records = [change(record) for record in read(log).records]
    log.write_bytes(b"".join(line_of(record) for record in records))


def trial(number: int, **changes: Any) -> Callable[[Any], Any]:
    """Return what changes fields of one trial."""

    def change(record: Any) -> Any:
        hit = isinstance(record, TrialRecord) and record.trial == number
        return record.model_copy(update=changes) if hit else record

    return change


def start(**changes: Any) -> Callable[[Any], Any]:
    """Return what changes fields of a run's first line."""
    return lambda r: r.model_copy(update=changes) if isinstance(r, RunRecord) else r


def test_a_run_is_proposed_again(log: Path):
    before = log.read_bytes()
    result = replay(log)
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "equal  matmul 64x64x64 float16 nn, for h200: 6 trials in 1 round, run "
    )
    assert result.stderr == ""
    assert log.read_bytes() == before


def test_json_is_one_object_a_run(log: Path):
    result = replay(log, "-f", "json", "-q")
    assert result.exit_code == 0
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert row["equal"] is True
    assert (row["trials"], row["rounds"], row["difference"], row["trial"]) == (6, 1, None, None)


def test_every_run_of_a_log_is_gone_through(log: Path):
    again = [r.model_copy(update={"run": "again"}) for r in read(log).records]
    log.write_bytes(log.read_bytes() + b"".join(line_of(record) for record in again))
    rewrite(log, lambda r: trial(2, program="0" * 16)(r) if r.run == "again" else r)
    result = replay(log)
    assert result.exit_code == 1
    first, second, difference = result.stdout.splitlines()
    assert first.startswith("equal  ")
    assert second.startswith("different  ")
    assert second.endswith("run again")
    assert difference.startswith("  trial 2: contraction.")


def test_the_first_difference_is_named_with_both_choices(log: Path):
    held = next(t for t in read(log).trials if t.trial == 3).schedule
    other = {**held, "choices": {**held["choices"], "warps": 64}}
    rewrite(log, trial(3, schedule=other))
    result = replay(log)
    assert result.exit_code == 1
    line = result.stdout.splitlines()[1]
    assert line.startswith(f"  trial 3: the log holds {held['sketch']} ")
    kept, proposed = line.split("; proposed is ")
    assert "warps=64" in kept
    assert f"warps={held['choices']['warps']}" in proposed


def test_what_has_changed_since_is_said_beside(log: Path):
    identity = next(r for r in read(log).records if isinstance(r, RunRecord)).identity
    versions = {**identity["versions"], "numpy": "1.0.0"}
    rewrite(log, start(identity={**identity, "versions": versions}))
    result = replay(log)
    assert result.exit_code == 0
    assert "  changed since: the version of numpy was 1.0.0 and is " in result.stdout


def test_a_damaged_line_is_named_and_may_be_missed(log: Path):
    lines = log.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"kind":"trial"' in line)
    lines[place] = lines[place].replace(b"trial", b"trail", 1)
    log.write_bytes(b"".join(lines))
    result = replay(log)
    assert result.stderr == f"{log}:{place + 1}: the checksum does not match; skipped\n"
    assert result.exit_code == 1
    assert "  final: the log compares trials [" in result.stdout


def test_a_run_without_its_first_line_cannot_be_proposed_again(log: Path):
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    result = replay(log)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1] == "  its first line cannot be read"


def test_an_empty_log_holds_nothing_that_differs_and_a_missing_one_is_a_mistake(tmp_path: Path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert (replay(empty).exit_code, replay(empty).stdout) == (0, "")
    assert replay(tmp_path / "missing.jsonl").exit_code == 2
    assert replay(tmp_path).exit_code == 2


def test_a_run_of_version_1_does_not_say_how_it_was_searched():
    result = replay(ROOT / "tests/measure/data/log-v1.jsonl")
    assert result.exit_code == 1
    assert result.stdout.startswith("different  ")


def test_nothing_that_measures_is_loaded(log: Path):
    code = (
        "import sys\n"
        "from autosched.cli.main import main\n"
        "try:\n    main(['replay', sys.argv[1]])\n"
        "except SystemExit as error:\n    code = error.code\n"
        "print(code, *({'torch', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0"


CODE = "x); import os; os.system('true') #"
#: By name, what somebody may write into a log whose checksums are right.
HOSTILE: dict[str, Callable[[Any], Any]] = {
    "a sketch that is code": trial(1, schedule={"sketch": CODE, "choices": {}, "steps": []}),
    "a sketch that steers a terminal": trial(1, schedule={"sketch": "\x1b[2J\x07", "steps": []}),
    "a choice that is huge": trial(1, schedule={"sketch": "s", "choices": {"tile_m": 10**300}}),
    "a choice that is code": trial(1, schedule={"sketch": "s", "choices": {CODE: 1}}),
    "choices of another type": trial(1, schedule={"sketch": ["s"], "choices": [1], "steps": 3}),
    "a step that is code": trial(1, schedule={"steps": [["Split", {"axis": CODE}]]}),
    "no schedule": trial(1, schedule={}),
    "a program that is code": trial(1, program=CODE * 100),
    "a trial far away": trial(1, trial=2**52),
    "a round far away": trial(1, round=2**52),
    "no identity": start(identity={}),
    "identities of other types": start(
        identity={"search": [1], "sketches": "s", "versions": 4, "target": {"a": CODE}}
    ),
    "a strategy that is code": start(identity={"search": {"strategy": CODE}}),
    "an option of another type": start(options={"trials": "6"}),
    "an option that is huge": start(options={"batch": 2**50}),
    "no options": start(options={}),
    "a spec that is code": start(spec={"expr": CODE, "sizes": {}, "inputs": {}}),
    "a spec of other types": start(spec={"op": "matmul", "m": "64", "n": 64, "k": 64}),
    "an extent that is huge": start(spec={"op": "matmul", "m": 10**30, "n": 64, "k": 64}),
    "a target that is a path": start(target="../../etc/passwd"),
    "a run named to steer a terminal": lambda r: r.model_copy(update={"run": "\x1b[2J\n"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_log_says_is_compared_and_never_obeyed(log: Path, name: str):
    rewrite(log, HOSTILE[name])
    result = replay(log)
    assert result.exit_code == (0 if name.startswith("a run named") else 1), result.stderr
    assert result.stdout.replace("\n", "").isprintable()
    assert "a fault of ours" not in result.stderr
    if result.exit_code:
        assert result.stdout.splitlines()[1].startswith("  ")


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith("a run named")])
def test_a_hostile_log_is_no_run_to_go_on_with(log: Path, name: str):
    rewrite(log, HOSTILE[name])
    before = log.read_bytes()
    spec = "matmul:m=64,n=64,k=64,dtype=float16"
    arguments = ["tune", spec, "--device", "model", "--resume", "--trials", "6", "-o", str(log)]
    if "spec" in name or "extent" in name:
        return  # the command states the spec, not the log
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.stderr
    assert result.stderr.replace("\n", "").isprintable()
    assert log.read_bytes() == before
