"""What a record must share with the place where it would serve: every field, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autosched.runtime.catalog import Catalog, Refusal, catalogue
from autosched.runtime.choice import choices
from autosched.runtime.device import Setting
from autosched.runtime.served import Served
from autosched.te.operators import batch_matmul, matmul
from measure.record import Failing, Provenance, TrialRecord
from search_space.workload import Workload

Make = Callable[..., TrialRecord]
WORK = matmul(64, 96, 128, dtype="float16", epilogue=("bias",))


def variant(**changes: Any) -> Workload:
    given = {"m": 64, "n": 96, "k": 128, "dtype": "float16", "epilogue": ("bias",), **changes}
    m, n, k = (given.pop(name) for name in ("m", "n", "k"))
    return matmul(m, n, k, **given)


def stored(number: int, **changes: Any) -> Workload:
    """The same workload with one input stored otherwise."""
    inputs = list(WORK.inputs)
    inputs[number] = replace(inputs[number], **changes)
    return replace(WORK, inputs=tuple(inputs))


def summed(**changes: Any) -> Workload:
    first, *rest = WORK.stages
    return replace(WORK, stages=(replace(first, **changes), *rest))


#: One field changed in each.
OTHERS = {
    "m": variant(m=65),
    "n": variant(n=64),
    "k": variant(k=64),
    "a batch of 1": batch_matmul(1, 64, 96, 128, dtype="float16", epilogue=("bias",)),
    "dtype": variant(dtype="bfloat16"),
    "dtype of the output": variant(out_dtype="float32"),
    "layout of A": variant(trans_a=True),
    "layout of B": variant(trans_b=True),
    "epilogue left out": variant(epilogue=()),
    "epilogue added to": variant(epilogue=("bias", "relu")),
    "another epilogue": variant(epilogue=("residual",)),
    "rows of A padded": stored(0, strides=(136, 1)),
    "rows of B padded": stored(1, strides=(104, 1)),
    "bias repeated": stored(2, strides=(0,)),
    "alignment of A": stored(0, alignment_bytes=2),
    "alignment of B": stored(1, alignment_bytes=32),
    "rows of the output padded": replace(WORK, output=replace(WORK.output, strides=(128, 1))),
    "alignment of the output": replace(WORK, output=replace(WORK.output, alignment_bytes=2)),
    "precision": replace(WORK, precision="tf32"),
    "reduction": summed(reducer="max"),
    "accumulator": replace(
        WORK, intermediates=tuple(replace(t, dtype="float16") for t in WORK.intermediates)
    ),
}


def test_every_variant_has_a_key_of_its_own() -> None:
    keys = {name: workload.key for name, workload in OTHERS.items()}
    assert len({WORK.key, *keys.values()}) == len(OTHERS) + 1


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_another_workload_misses(record: Make, here: Setting, other: Workload) -> None:
    made = catalogue([record(WORK)], (), here.place)
    assert set(made.best) == {WORK.key}
    assert other.key not in made.best


def test_constants_of_an_epilogue_count_and_labels_do_not() -> None:
    half, third = variant(epilogue=("scale:0.5",)), variant(epilogue=("scale:0.25",))
    assert half.key != third.key
    assert variant(epilogue=("bias", "relu")).key != variant(epilogue=("relu", "bias")).key
    assert replace(WORK, label="another name").key == WORK.key


def first(here: Setting, record: TrialRecord) -> tuple[Served, Catalog]:
    made = catalogue([record], (), here.place)
    return next(choices(WORK, made, here)), made


def changed(record: TrialRecord, part: str, **changes: Any) -> TrialRecord:
    return record.model_copy(update={part: getattr(record, part).model_copy(update=changes)})


FAILING = Failing(kind="compile", detail="no", build_s=0.1, run_s=0.0)
#: By field of a record: a change of it that must not be served as it is, and the words for it.
REFUSED: dict[str, tuple[Callable[[TrialRecord], TrialRecord], str]] = {
    "workload": (
        lambda r: changed(r, "workload", text="axes i0=1:spatial\n"),
        "its key is that of another workload",
    ),
    "target": (lambda r: r.model_copy(update={"target": "a100"}), Refusal.FOREIGN),
    "gpu": (lambda r: r.model_copy(update={"gpu": "NVIDIA H100 80GB HBM3"}), Refusal.FOREIGN),
    "schedule": (
        lambda r: r.model_copy(update={"schedule": {"steps": r.schedule["steps"][:-1]}}),
        "another program than the one that was measured",
    ),
    "program": (
        lambda r: r.model_copy(update={"program": "0" * 16}),
        "another program than the one that was measured",
    ),
    "rendering_version": (
        lambda r: r.model_copy(update={"rendering_version": r.rendering_version + 1}),
        Refusal.RENDERING,
    ),
    "measurement": (
        lambda r: changed(r, "measurement", predicted=True),
        Refusal.PREDICTED,
    ),
    "evidence": (lambda r: r.model_copy(update={"evidence": None}), Refusal.EVIDENCE),
}
#: Fields that say where a record comes from, and not what it is of. Tools are below.
TOLD = ("kind", "version", "run", "trial", "round", "facts", "provenance")


def test_every_field_of_a_record_is_one_or_the_other() -> None:
    assert {*REFUSED, *TOLD} == set(TrialRecord.model_fields)


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_that_differs_in_one_field_is_not_served(
    record: Make, here: Setting, name: str
) -> None:
    change, words = REFUSED[name]
    good = record(WORK)
    assert first(here, good)[0].source == "tuned"
    served, _ = first(here, change(good))
    assert served.source == "default"
    assert words in served.reason


def test_a_failure_is_not_served(record: Make, here: Setting) -> None:
    served, made = first(here, record(WORK, measurement=FAILING))
    assert (served.source, made.failed) == ("default", 1)


@pytest.mark.parametrize(
    ("changes", "proven"),
    [
        ({"triton": "3.5.1"}, False),
        ({"triton": ""}, False),
        ({"driver": "580.66"}, False),
        ({"driver": ""}, False),
        ({"triton": "3.6.0+gitabc"}, True),
        ({"torch": "2.10.0"}, True),
        ({"autosched": "0.0.9"}, True),
        ({"seed": 9}, True),
        ({"time": "2020-01-01T00:00:00Z"}, True),
    ],
)
def test_other_tools_are_served_once_verified_again(
    record: Make, here: Setting, changes: dict[str, Any], proven: bool
) -> None:
    served, _ = first(here, changed(record(WORK), "provenance", **changes))
    assert (served.source, served.proven) == ("tuned", proven)


def test_every_field_of_provenance_has_a_policy() -> None:
    policies = {"triton", "driver", "torch", "autosched", "seed", "time"}
    assert policies == set(Provenance.model_fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "NVIDIA H100 80GB HBM3"},
        {"target": None},
        {"triton": "3.7.0"},
        {"driver": "590.1"},
    ],
)
def test_a_place_that_differs_in_one_field_does_not_serve_it_as_proven(
    record: Make, here: Setting, changes: dict[str, Any]
) -> None:
    there = replace(here, **changes)
    served = next(choices(WORK, catalogue([record(WORK)], (), there.place), there))
    assert not (served.source == "tuned" and served.proven)
