"""What was measured of a neighbour serves a workload that was not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched.runtime.catalog import Catalog, catalogue
from autosched.runtime.choice import choices
from autosched.runtime.default import default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.forms import form_of
from autosched.runtime.related import Advice, advice, neighbours
from autosched.spec import from_data
from autosched.te.layout import stored
from autosched.te.operators import matmul
from measure import interpret
from measure.measurement import Evidence
from measure.record import Entrant, FinalRecord, RunRecord, TimingText, TrialRecord
from search_space.rules import sketches
from search_space.sketch import fill
from search_space.workload import Workload

Make = Callable[..., TrialRecord]


#: What states each workload, by its key.
SPECS: dict[str, dict[str, Any]] = {}


def stated(**fields: Any) -> Workload:
    workload = from_data("a test", fields).workload
    SPECS[workload.key] = fields
    return workload


def rows(m: int, n: int = 96, k: int = 64) -> Workload:
    return stated(op="matmul", m=m, n=n, k=k, dtype="float16", trans_b=True)


def batches(batch: int, m: int) -> Workload:
    return stated(op="batch_matmul", batch=batch, m=m, n=96, k=64, dtype="float16")


def images(n: int) -> Workload:
    return stated(op="conv2d", n=n, h=8, w=8, ci=16, co=16, kh=3, kw=3, pad=1, dtype="float16")


def advised(workload: Workload, held: Catalog, here: Setting) -> Advice | None:
    assert here.target
    return advice(workload, held, here.target, default_schedules(workload, here.target))


def catalog(here: Setting, *records: TrialRecord | FinalRecord) -> Catalog:
    """Return the catalogue of a log whose runs state what they tuned."""
    lines: list[RunRecord | TrialRecord | FinalRecord] = []
    for record in records:
        spec = SPECS.get(record.workload.key)
        if isinstance(record, TrialRecord) and spec is not None:
            lines.append(
                RunRecord(
                    run="r1",
                    spec=spec,
                    options={},
                    device="cuda",
                    target="h200",
                    gpu=record.gpu,
                    workload=record.workload,
                    provenance=record.provenance,
                )
            )
        lines.append(record)
    return catalogue(lines, (), here.place)


def compared(record: TrialRecord, library_us: float) -> FinalRecord:
    """Make the closing comparison that a record won against a library of this time."""
    timing = record.measurement.timing  # type: ignore[union-attr]
    ratio = library_us / timing.latency_us
    entrant = Entrant(
        trial=0,
        program=record.program,
        timing=timing,
        ratio=(ratio, ratio * 0.99, ratio * 1.01),
    )
    library = TimingText(
        latency_us=library_us, low_us=library_us, high_us=library_us, samples_us=(library_us,)
    )
    return FinalRecord(
        run="r1",
        workload=record.workload,
        target="h200",
        gpu="NVIDIA H200",
        entrants=(entrant,),
        library=library,
        best=0,
        ties=(0,),
        rounds=50,
        seeds=(1, 2),
        provenance=record.provenance,
    )


def test_forms_are_texts_without_extents() -> None:
    one, other = form_of(rows(64).canonical), form_of(rows(100).canonical)
    assert one
    assert other
    assert one.text == other.text
    assert (one.extents, other.extents) == ((64, 96, 64), (100, 96, 64))
    swapped = form_of(matmul(64, 96, 64, dtype="float16").canonical)
    assert swapped
    assert swapped.text != one.text
    assert form_of(stored(rows(64), "A", strides=(80, 1)).canonical) is None
    assert form_of("nonsense") is None


def test_the_nearest_on_either_side_within_reach(record: Make, here: Setting) -> None:
    held = catalog(here, *(record(rows(m)) for m in (16, 64, 100, 200, 512)))
    found = [(n.extent, n.here) for n in neighbours(rows(128), held)]
    assert found == [(100, 128), (200, 128)]
    assert [n.extent for n in neighbours(rows(1000), held)] == [512]
    assert not neighbours(rows(5000), held)
    assert not neighbours(rows(128), catalogue([record(rows(64))], (), here.place))
    assert not neighbours(rows(128, n=97), held)


@pytest.mark.parametrize(
    ("logged", "asked"),
    [
        (batches(8, 64), batches(9, 64)),
        (batches(8, 64), batches(8, 99)),
        (images(2), images(3)),
    ],
)
def test_batches_and_images_are_related(
    record: Make, here: Setting, logged: Workload, asked: Workload
) -> None:
    held = catalog(here, record(logged, 1.0))
    found = advised(asked, held, here)
    assert found
    assert [s.measured for s in found.suggestions].count(True) == 1
    ways = list(choices(asked, held, here))
    assert not any(way.proven for way in ways)
    assert ways[-1].source == "library"


def test_two_extents_or_the_last_axis_make_strangers(record: Make, here: Setting) -> None:
    held = catalog(here, record(rows(64)))
    assert next(choices(rows(100, n=100), held, here)).source == "default"
    assert next(choices(rows(64, n=100), held, here)).source == "default"


def test_the_model_is_corrected_by_what_it_got_wrong_there(record: Make, here: Setting) -> None:
    """One schedule turned out twice as slow as another at both neighbours, whatever was thought."""
    target = here.target
    assert target
    options = [default.schedule for default in default_schedules(rows(96), target)[:2]]

    def tried(m: int, option: int, latency_us: float) -> TrialRecord:
        chosen = options[option]
        known = {sketch.name: sketch for sketch in sketches(rows(m), target)}
        schedule = fill(known[chosen.sketch], chosen.choices).to_data()
        return record(rows(m), latency_us, schedule=schedule)

    for slow in (0, 1):
        times = {64: (10.0, 10.0), 128: (20.0, 20.0)}
        records = [
            tried(m, n, us * (2 if n == slow else 1))
            for m, all_us in times.items()
            for n, us in enumerate(all_us)
        ]
        found = advised(rows(96), catalog(here, *records), here)
        assert found
        measured = [s for s in found.suggestions if s.measured]
        assert [s.schedule for s in measured] == [options[1 - slow], options[slow]]
        assert measured[1].estimate_us > 1.5 * measured[0].estimate_us
        assert found.where == "where 96 is 128 and 64"


def test_torchs_time_lies_between_those_of_the_neighbours(record: Make, here: Setting) -> None:
    lower, upper = record(rows(64), 10.0), record(rows(256), 40.0)
    held = catalog(here, lower, upper, compared(lower, 12.0), compared(upper, 48.0))
    found = advised(rows(128), held, here)
    assert found
    assert found.library_us == pytest.approx(24.0)
    alone = advised(rows(128), catalog(here, lower, compared(lower, 12.0)), here)
    assert alone
    best = alone.suggestions[0].estimate_us
    assert alone.library_us == pytest.approx(12.0 * best / 10.0)


def test_a_related_schedule_computes_the_workload(record: Make, here: Setting) -> None:
    work = rows(37)
    held = catalog(here, record(rows(64), 1.0), record(rows(20), 1.0))
    served = next(way for way in choices(work, held, here) if way.source == "related")
    assert served.program is not None
    assert isinstance(interpret.check(work, served.program, 7), Evidence)


def test_torch_serves_where_it_was_measured_faster(record: Make, here: Setting) -> None:
    logged = record(rows(64), 10.0)
    held = catalog(here, logged, compared(logged, 9.0))
    first, second, *_ = choices(rows(64), held, here)
    assert (first.source, first.missed, second.source) == ("library", False, "tuned")
    assert "torch was measured faster" in first.reason
    assert "9 us" in first.reason
    assert next(choices(rows(64), held, here, "tuned")).source == "tuned"
    near = next(choices(rows(100), held, here))
    assert (near.source, near.missed) == ("library", True)
    assert "by what was measured where 100 is 64, torch should take" in near.reason
    assert next(choices(rows(100), held, here, "tuned")).source != "library"


@pytest.mark.parametrize("library_us", [9.95, 12.0])
def test_a_tie_is_no_win_of_torchs(record: Make, here: Setting, library_us: float) -> None:
    logged = record(rows(64), 10.0)
    held = catalog(here, logged, compared(logged, library_us))
    assert next(choices(rows(64), held, here)).source == "tuned"
