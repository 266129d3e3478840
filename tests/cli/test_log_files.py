"""Tests of autosched log merge, prune, export and import."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main
from measure.log import LogWriter, best, line_of, read
from measure.record import EvidenceText, FinalRecord, TrialRecord


def log(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["log", *map(str, arguments)])


@pytest.fixture
def path(tuned) -> Path:
    return tuned[1]


@pytest.fixture
def measured(path: Path, tmp_path: Path) -> Path:
    """The log's trials as a GPU would have measured them."""
    made = tmp_path / "measured.jsonl"
    evidence = EvidenceText(reference="torch", seeds=(0, 1), max_error=0.1, rtol=1e-3, atol=1e-3)
    with LogWriter(made) as writer:
        for record in read(path).records:
            if isinstance(record, TrialRecord) and record.ok:
                sure = record.measurement.model_copy(update={"predicted": False})
                changes = {"measurement": sure, "evidence": evidence}
                writer.append(record.model_copy(update=changes))
            else:
                writer.append(record)
    return made


def test_a_copy_that_went_on_is_the_longer_log(path: Path, tmp_path: Path):
    lines = path.read_bytes().splitlines(keepends=True)
    first, out = tmp_path / "first.jsonl", tmp_path / "all.jsonl"
    first.write_bytes(b"".join(lines[:4]))
    result = log("merge", first, path, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert out.read_bytes() == path.read_bytes()
    assert "4 repeated" in result.stderr


def test_merging_names_damage_and_loses_nothing_else(path: Path, tmp_path: Path):
    bad, out = tmp_path / "bad.jsonl", tmp_path / "all.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    bad.write_bytes(b"".join([*lines[:2], b'{"crc":"00000000","rec":{}}\n', *lines[2:]]))
    result = log("merge", bad, "-o", out, "-f", "json")
    assert f"{bad}:3: the checksum does not match; skipped" in result.stderr
    assert json.loads(result.stdout)["records"] == len(lines)
    assert out.read_bytes() == path.read_bytes()


def test_nothing_is_overwritten(path: Path, tmp_path: Path):
    before = path.read_bytes()
    for arguments in (
        ("merge", path, "-o", path),
        ("prune", path, "-o", path),
        ("export", path, "-f", "csv", "-o", path),
    ):
        result = log(*arguments)
        assert result.exit_code == 2
        assert "exists already" in result.stderr
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("keep", [1, 3])
def test_pruning_keeps_what_serves(measured: Path, tmp_path: Path, keep: int):
    out = tmp_path / "small.jsonl"
    result = log("prune", measured, "-o", out, "--keep", keep)
    assert result.exit_code == 0, result.stderr
    before, after = read(measured).records, read(out).records
    assert best(after) == best(before) != {}
    trials = [r for r in after if isinstance(r, TrialRecord)]
    assert keep <= len(trials) <= keep + 1
    assert all(isinstance(r, TrialRecord | FinalRecord) for r in after)
    dropped = sum(isinstance(r, TrialRecord) for r in before) - len(trials)
    assert f"dropped: {dropped} trial" in result.stderr
    again = tmp_path / "again.jsonl"
    log("prune", out, "-o", again, "--keep", keep)
    assert again.read_bytes() == out.read_bytes()


def test_t4_there_and_back_keeps_every_trial(path: Path, tmp_path: Path):
    t4, back = tmp_path / "t4.json", tmp_path / "back.jsonl"
    result = log("export", path, "-f", "t4", "-o", t4)
    assert result.exit_code == 0, result.stderr
    assert "have no place in it" in result.stderr
    data = json.loads(t4.read_text())
    trials = [r for r in read(path).records if isinstance(r, TrialRecord)]
    assert data["schema_version"] == "1.0.0"
    assert len(data["results"]) == len(trials)
    for entry, trial in zip(data["results"], trials, strict=True):
        assert {"configuration", "times", "invalidity", "correctness"} <= set(entry)
        if trial.ok:
            assert entry["invalidity"] == "correct"
            assert entry["measurements"][0]["value"] == pytest.approx(trial.latency_us / 1e3)
    assert (tmp_path / "t4-metadata.json").exists()
    result = log("import", t4, "-o", back)
    assert "left out: 0 of other tuners, 0 damaged" in result.stderr
    assert back.read_bytes() == b"".join(map(line_of, trials))


def test_import_counts_what_is_of_another_tuner(tmp_path: Path):
    t4, out = tmp_path / "other.json", tmp_path / "out.jsonl"
    results = [
        {"configuration": {"block": 32}, "times": {}, "invalidity": "correct", "correctness": 1},
        {"measurements": [{"name": "autosched.record", "value": '{"kind":"trial"}'}]},
        {"measurements": [{"name": "autosched.record", "value": 7}]},
        "what",
    ]
    t4.write_text(json.dumps({"results": results}))
    result = log("import", t4, "-o", out, "-f", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "log": str(out),
        "trials": 0,
        "foreign": 2,
        "damaged": 2,
    }


@pytest.mark.parametrize("text", ["", "[1]", '{"results": 3}', "[" * 100_000, "nonsense"])
def test_import_of_what_is_no_t4(tmp_path: Path, text: str):
    t4, out = tmp_path / "t4.json", tmp_path / "out.jsonl"
    t4.write_text(text)
    result = log("import", t4, "-o", out)
    assert result.exit_code == 2
    assert str(t4) in result.stderr
    assert not out.exists()


def test_csv_has_a_row_for_each_trial(path: Path, tmp_path: Path):
    out = tmp_path / "log.csv"
    assert log("export", path, "-f", "csv", "-o", out).exit_code == 0
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    trials = [r for r in read(path).records if isinstance(r, TrialRecord)]
    assert [int(row["trial"]) for row in rows] == [trial.trial for trial in trials]
    assert [json.loads(row["choices"]) for row in rows] == [
        trial.schedule["choices"] for trial in trials
    ]
    assert not any(row["workload"].startswith(("=", "+", "-", "@")) for row in rows)


def test_a_folder_that_is_not_there_is_5(path: Path, tmp_path: Path):
    result = log("merge", path, "-o", tmp_path / "nowhere" / "out.jsonl")
    assert result.exit_code == 5
    assert "cannot be written" in result.stderr
