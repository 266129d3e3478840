from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autosched.runtime.catalog import catalogue
from autosched.runtime.choice import choices
from autosched.runtime.device import Setting
from autosched.te.operators import matmul
from measure.record import TrialRecord, WorkloadText

WORK = matmul(64, 64, 64, dtype="float16")
Make = Callable[..., TrialRecord]


def first(here: Setting, *records: TrialRecord):
    return next(choices(WORK, catalogue(records, (), here.place), here))


def test_the_record_replays_to_the_program_that_was_measured(record: Make, here: Setting) -> None:
    logged = record(WORK, 9.25)
    served = first(here, logged, record(WORK, 12.0, 1))
    assert served.source == "tuned"
    assert served.fingerprint == logged.program
    assert served.latency_us == 9.25
    assert served.proven
    assert served.reason == "best of 2 measured, 9.25 us on NVIDIA H200"


def test_other_versions_of_triton_or_driver_have_to_be_proven_again(
    record: Make, here: Setting
) -> None:
    logged = record(WORK)
    for change in ({"triton": "3.5.1"}, {"driver": "570.1"}, {"driver": ""}):
        old = logged.provenance.model_copy(update=change)
        served = first(here, record(WORK, provenance=old))
        assert served.source == "tuned"
        assert not served.proven
    local = logged.provenance.model_copy(update={"triton": "3.6.0+gitabc"})
    assert first(here, record(WORK, provenance=local)).proven


def test_without_a_record_a_default_serves_and_says_why(here: Setting) -> None:
    served = first(here)
    assert served.source == "default"
    assert served.program is not None
    assert not served.proven
    assert served.reason.startswith("the log has no record of this workload; a default by contr")


def test_refused_records_are_part_of_the_reason(record: Make, here: Setting) -> None:
    served = first(here, record(WORK, gpu="NVIDIA A100-SXM4-80GB"), record(WORK, evidence=None))
    assert "1 of another GPU" in served.reason
    assert "1 without evidence of being right" in served.reason


def test_a_record_that_does_not_replay_gives_way_to_a_default(record: Make, here: Setting) -> None:
    logged = record(WORK)
    steps = logged.schedule["steps"]
    for schedule, words in (
        ({"steps": [["Blow", {}]]}, "step 'Blow' is not known"),
        ({"steps": steps[1:]}, "does not replay"),
        ({}, "does not replay"),
    ):
        served = first(here, record(WORK, schedule=schedule))
        assert served.source == "default"
        assert words in served.reason


def test_a_program_that_was_not_the_one_measured_is_refused(record: Make, here: Setting) -> None:
    served = first(here, record(WORK, program="0" * 16))
    assert served.source == "default"
    assert "renders to another program than the one that was measured" in served.reason


def test_a_key_over_another_text_is_refused(record: Make, here: Setting) -> None:
    text = WorkloadText(key=WORK.key, text="axes i0=1:spatial\n", label="")
    served = first(here, record(WORK).model_copy(update={"workload": text}))
    assert served.source == "default"
    assert "its key is that of another workload" in served.reason


def test_torch_comes_last_and_alone_where_no_target_describes_the_gpu(here: Setting) -> None:
    every = list(choices(WORK, catalogue([], (), here.place), here))
    assert [served.source for served in every] == ["default"] * 3 + ["library"]
    unknown = replace(here, gpu="NVIDIA X1", target=None)
    [only] = choices(WORK, catalogue([], (), unknown.place), unknown)
    assert only.source == "library"
    assert only.reason == "no target describes the GPU 'NVIDIA X1'"
