"""What of a log is exported, what is refused and why, and what the command says of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sample_log import PROVENANCE, WORKS, run_record, trial_record

from autosched.cli.main import main
from autosched.export.manifest import names
from autosched.export.selection import NoSuchWorkload, Refused, Selected, select
from autosched.export.shipped import autosched_manifest
from autosched.spec import load
from measure.log import read
from measure.record import Entrant, Failing, FinalRecord
from search_space import target as targets

H200 = targets.load("h200")
[TASK] = load("matmul:m=32,n=32,k=32,dtype=float16")
[OTHER] = load("matmul:m=64,n=32,k=32,dtype=float16")


def export(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def reason(found: tuple[Selected | Refused, ...]) -> str:
    [one] = found
    assert isinstance(one, Refused)
    assert (one.key, one.label) == (TASK.workload.key, TASK.workload.label)
    return one.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gpu": "NVIDIA H100"}, "the log has no usable record of it: 1 of another GPU"),
        ({"rendering_version": 1}, "1 of another rendering version"),
        ({"evidence": None}, "1 without evidence of being right"),
        ({"program": "0" * 16}, "it renders to another program than the one that was measured"),
        (
            {"provenance": PROVENANCE.model_copy(update={"triton": "3.5.1"})},
            "it was verified with Triton 3.5.1, and Triton here is 3.6.0: what it would compile "
            "was never run",
        ),
        (
            {"measurement": Failing(kind="compile", detail="no", build_s=0.1, run_s=0)},
            "every trial of it failed",
        ),
    ],
)
def test_only_what_was_verified_is_exported(changes: Any, why: str, write: Any) -> None:
    trial = trial_record(TASK, "r").model_copy(update=changes)
    assert why in reason(select(read(write(run_record(TASK, "r"), trial)), H200))


def test_a_workload_that_no_run_states_is_refused(write: Any) -> None:
    trial = trial_record(TASK, "r")
    lone = select(read(write(run_record(OTHER, "o"), trial)), H200)
    assert reason(lone) == "no run in the log says what it computes: give its spec (--spec)"
    [stated] = select(read(write(trial)), H200, workloads=[TASK.workload])
    assert isinstance(stated, Selected)
    start = run_record(TASK, "r").model_copy(update={"spec": {"op": "matmul", "m": "import os"}})
    assert reason(select(read(write(start)), H200)).startswith(
        "its run does not say what it computes: "
    )


def test_one_workload_is_named_by_label_or_key(write: Any) -> None:
    log = read(
        write(
            *(run_record(t, t.id) for t in (TASK, OTHER)),
            *(trial_record(t, t.id) for t in (TASK, OTHER)),
        )
    )
    assert len(select(log, H200)) == 2
    for name in (OTHER.workload.key, OTHER.workload.label):
        [one] = select(log, H200, [name])
        assert isinstance(one, Selected)
        assert one.workload == OTHER.workload
    with pytest.raises(NoSuchWorkload, match=r"no workload 'gemm'; it has: matmul 32x32x32 "):
        select(log, H200, ["gemm"])


def test_names_are_words_and_no_two_are_alike(write: Any) -> None:
    log = read(write(run_record(TASK, "r"), trial_record(TASK, "r")))
    [one] = select(log, H200)
    assert isinstance(one, Selected)

    def labelled(label: str) -> Selected:
        return replace(one, workload=replace(one.workload, label=label))

    key = one.workload.key
    labels = ["C[i,j] += A", "c i j a", "2d", "class", "", "kernels", "x" * 300]
    assert names([labelled(label) for label in labels]) == [
        f"c_i_j_a_{key}",
        f"c_i_j_a_{key}",
        "workload_2d",
        "workload_class",
        f"workload_{key}",
        "workload_kernels",
        "x" * 100,
    ]


def test_the_manifest_says_what_was_measured(sample: Any) -> None:
    held = autosched_manifest.read(sample.folder)
    assert (held.target, held.arch, held.gpus) == ("h200", 90, ("NVIDIA H200",))
    assert len(held.workloads) == len(WORKS)
    for workload in held.workloads:
        evidence = workload.evidence
        assert (evidence["latency_us"], evidence["max_error"]) == (9.25, 0.2)
        assert (evidence["seeds"], evidence["time"]) == ([0, 1], "2026-01-01T00:00:00Z")
        assert evidence["versions"]["triton"] == "3.6.0"
    on_disk = {path.name for path in sample.folder.iterdir()}
    assert on_disk == {*held.files, autosched_manifest.MANIFEST}


def test_the_ratio_is_that_of_the_closing_comparison(write: Any) -> None:
    trial = trial_record(TASK, "r")
    entrant = Entrant(trial=0, program=trial.program, timing=None, ratio=(0.9, 0.85, 0.95))
    final = FinalRecord(
        run="r",
        workload=trial.workload,
        target="h200",
        gpu="NVIDIA H200",
        entrants=(entrant,),
        library=None,
        best=0,
        ties=(0,),
        rounds=10,
        seeds=(1,),
        provenance=PROVENANCE,
    )
    [one] = select(read(write(run_record(TASK, "r"), trial, final)), H200)
    assert isinstance(one, Selected)
    assert one.ratio == (0.9, 0.85, 0.95)
    [one] = select(read(write(final.model_copy(update={"predicted": True}))), H200)
    assert isinstance(one, Selected)
    assert one.ratio == (0.9, 0.85, 0.95)  # what is predicted changes nothing


def test_exporting_again_gives_the_same_folder(sample: Any, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert export(sample.log, "-o", again, "-q").exit_code == 0
    for path in sample.folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_the_command_says_what_it_did(sample: Any, tmp_path: Path, write: Any) -> None:
    log = write(run_record(TASK, "r"), trial_record(TASK, "r"), trial_record(OTHER, "lost"))
    out = tmp_path / "deep" / "kernels"
    done = export(log, "-o", out, "-f", "json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [w["key"] for w in told["workloads"]] == [TASK.workload.key]
    assert told["refused"] == [
        {
            "key": OTHER.workload.key,
            "label": OTHER.workload.label,
            "reason": "no run in the log says what it computes: give its spec (--spec)",
        }
    ]
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text("utf-8")
    [said] = re.findall(r"^- `export`: .*$", page.split("## As JSON")[1], re.MULTILINE)
    fields = {*told, *told["workloads"][0], *told["refused"][0]}
    assert fields | {"export"} == set(re.findall(r"`(\w+)`", said))
    assert "left out: matmul 64x32x32 float16 nn: no run" in done.stderr
    assert told["bytes"] == sum(path.stat().st_size for path in out.iterdir())
    assert [p.name for p in out.parent.iterdir()] == ["kernels"]

    again = export(log, "-o", out)
    assert (again.exit_code, again.stderr) == (
        2,
        f"autosched: {out} holds an export already; --replace writes it anew\n",
    )
    (out / "stale").touch()
    spec = "matmul:m=64,n=32,k=32,dtype=float16"
    replaced = export(log, "-o", out, "--replace", "--spec", spec)
    assert replaced.exit_code == 0
    assert "matmul_32x32x32_float16_nn" in replaced.stdout
    assert "matmul_64x32x32_float16_nn" in replaced.stdout
    assert not (out / "stale").exists()
    assert [p.name for p in out.parent.iterdir()] == ["kernels"]


def test_mistakes_are_sentences(write: Any, tmp_path: Path) -> None:
    log = write(run_record(TASK, "r"), trial_record(TASK, "r", None))
    foreign = export(log, "-o", tmp_path)
    assert foreign.exit_code == 2
    assert "holds other things than an export; name a new folder" in foreign.stderr
    amd = export(log, "-o", tmp_path / "new", "--target", "mi300x")
    assert (amd.exit_code, amd.stderr) == (
        2,
        "autosched: kernels are exported for CUDA, and mi300x is hip\n",
    )
    nothing = export(log, "-o", tmp_path / "new", "--target", "a100")
    assert nothing.exit_code == 3
    assert "no workload can be exported for a100\n  matmul 32x32x32" in nothing.stderr
    unknown = export(log, "-o", tmp_path / "new", "--only", "gemm")
    assert unknown.exit_code == 2
    assert not (tmp_path / "new").exists()
