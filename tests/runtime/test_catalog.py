from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.runtime.catalog import Refusal, catalogue, load_catalog
from autosched.runtime.device import Setting
from autosched.runtime.errors import NoLog
from autosched.te.operators import matmul
from measure.log import LogWriter
from measure.record import Entrant, Failing, FinalRecord, TrialRecord

WORK = matmul(64, 64, 64, dtype="float16")
OTHER = matmul(128, 64, 64, dtype="float16")
Make = Callable[..., TrialRecord]


def test_the_fastest_record_of_each_workload_is_kept(record: Make, here: Setting) -> None:
    records = [record(WORK, 12.0), record(WORK, 9.0, 1), record(OTHER, 20.0)]
    made = catalogue(records, (), here.place)
    assert made.best == {WORK.key: records[1], OTHER.key: records[2]}
    assert (made.trials, made.failed, made.usable[WORK.key]) == (3, 0, 2)


def test_the_winner_of_the_final_comparison_beats_a_lucky_trial(
    record: Make, here: Setting
) -> None:
    lucky, steady = record(WORK, 9.0), record(WORK, 9.5, 1)
    timings = {"lucky": record(WORK, 9.8), "steady": record(WORK, 9.6)}
    entrants = tuple(
        Entrant(trial=n, program=r.program, timing=timings[name].measurement.timing)  # type: ignore[union-attr]
        for n, (name, r) in enumerate((("lucky", lucky), ("steady", steady)))
    )
    final = FinalRecord(
        run="r1",
        workload=lucky.workload,
        target="h200",
        gpu="NVIDIA H200",
        entrants=entrants,
        library=None,
        best=1,
        ties=(1,),
        rounds=50,
        seeds=(1, 2, 3),
        provenance=lucky.provenance,
    )
    assert catalogue([lucky, steady, final], (), here.place).best == {WORK.key: steady}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": "NVIDIA A100-SXM4-80GB"}, Refusal.FOREIGN),
        ({"target": "a100"}, Refusal.FOREIGN),
        ({"rendering_version": 999}, Refusal.RENDERING),
        ({"evidence": None}, Refusal.EVIDENCE),
    ],
)
def test_changing_one_field_of_identity_misses(
    record: Make, here: Setting, changes: dict[str, object], reason: Refusal
) -> None:
    made = catalogue([record(WORK, **changes)], (), here.place)
    assert made.best == {}
    assert made.refused[WORK.key] == {reason: 1}
    assert made.refusals() == {reason: 1}


def test_an_output_out_of_tolerance_is_no_evidence(record: Make, here: Setting) -> None:
    good = record(WORK)
    assert good.evidence is not None
    for changes in ({"max_error": 1.01}, {"seeds": ()}):
        weak = record(WORK, evidence=good.evidence.model_copy(update=changes))
        assert catalogue([weak], (), here.place).refused[WORK.key] == {Refusal.EVIDENCE: 1}


def test_predicted_and_failed_records_are_counted_and_not_served(
    record: Make, here: Setting
) -> None:
    good = record(WORK)
    predicted = record(WORK, measurement=good.measurement.model_copy(update={"predicted": True}))
    failing = Failing(kind="compile", detail="no", build_s=0.1, run_s=0.0)
    made = catalogue([predicted, record(WORK, measurement=failing)], (), here.place)
    assert made.best == {}
    assert made.refused[WORK.key] == {Refusal.PREDICTED: 1}
    assert (made.trials, made.failed) == (2, 1)


def test_a_damaged_line_costs_itself_alone(record: Make, here: Setting, tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    with LogWriter(path) as log:
        log.append(record(WORK, 9.0))
        log.append(record(OTHER, 20.0))
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    made = load_catalog(path, here.place)
    assert list(made.best) == [OTHER.key]
    assert [damage.line for damage in made.damage] == [1]


def test_an_empty_log_is_a_log_and_a_missing_one_is_not(here: Setting, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert load_catalog(empty, here.place).best == {}
    with pytest.raises(NoLog, match=r"missing\.jsonl: there is no such log"):
        load_catalog(tmp_path / "missing.jsonl", here.place)
