"""autosched record: a landscape from the command line, also in two goes."""

from pathlib import Path

from click.testing import CliRunner, Result

from autosched import landscape
from autosched.cli.main import main
from measure.log import read

SMALL = "matmul:m=64,n=64,k=64,dtype=float16,id=small"


def record(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["record", SMALL, "--device", "model", *arguments])


def test_a_landscape_holds_every_attempt(tmp_path: Path) -> None:
    result = record("--schedules", "8", "-o", str(tmp_path), "--fix", "warps=4")
    assert result.exit_code == 0, result.stderr
    found = landscape.load(tmp_path / "small.landscape.xz")
    trials = read(tmp_path / "small.jsonl").trials
    assert len(found.points) == len(trials) == 8
    assert found.head.device == "model"
    assert found.head.rule.fixed == {"warps": (4,)}
    outcomes = {(p.key, p.fingerprint): p.outcome for p in found.points}
    assert outcomes == {
        ((t.schedule["sketch"], tuple(t.schedule["choices"].values())), t.program): t.measured()
        for t in trials
    }
    assert all(
        choices[p.sketch.names.index("warps")] == 4
        for p in found.points
        for choices in (p.choices,)
    )


def test_a_recording_goes_on_where_it_ended(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert record("--schedules", "6", "-o", str(whole)).exit_code == 0
    assert record("--schedules", "6", "-o", str(parts)).exit_code == 0
    log = parts / "small.jsonl"
    kept, trials = [], 0
    for line in log.read_bytes().splitlines(keepends=True):
        trials += b'"kind":"trial"' in line
        if trials <= 3 and b'"kind":"final"' not in line and b'"kind":"stop"' not in line:
            kept.append(line)
    log.write_bytes(b"".join(kept))
    result = record("--schedules", "6", "-o", str(parts), "--resume")
    assert result.exit_code == 0, result.stderr
    a, b = (landscape.load(p / "small.landscape.xz") for p in (whole, parts))
    assert [p.key for p in a.points] == [p.key for p in b.points]


def test_a_part_is_measured_completely(tmp_path: Path) -> None:
    part = ("--sketch", "contraction.pointer", "--fix", "tile_m=16,32", "--fix", "tile_n=32")
    part += ("--fix", "tile_k=64", "--fix", "stages=2", "--fix", "group=1")
    assert record("--complete", "-o", str(tmp_path), *part).exit_code == 0
    found = landscape.load(tmp_path / "small.landscape.xz")
    rows = {tuple(zip(p.sketch.names, p.choices, strict=True)) for p in found.points}
    assert {dict(row)["tile_m"] for row in rows} == {16, 32}
    assert len(rows) == len(found.points) > 2
    assert found.head.rule.kind == "complete"
    assert found.head.command.startswith(f"autosched record {SMALL} --only small --schedules 2000")


def test_wrong_wishes_are_named(tmp_path: Path) -> None:
    cases = (
        (("--fix", "warps"), "'warps': a choice and its values"),
        (("--fix", "warps=x"), "'warps=x': a choice and its values"),
        (("--fix", "warps=5"), "warps=5 is in no domain"),
        (("--sketch", "nowhere"), "sketch 'nowhere' is none of this workload"),
        (("--only", "large"), "large is no workload of SPEC"),
    )
    for arguments, sentence in cases:
        result = record("-o", str(tmp_path), *arguments)
        assert result.exit_code == 2, (arguments, result.stderr)
        assert sentence in result.stderr
    assert list(tmp_path.iterdir()) == []
