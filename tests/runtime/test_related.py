"""What was measured of a neighbour serves a workload that was not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.runtime.catalog import Catalog, catalogue
from autosched.runtime.choice import choices
from autosched.runtime.default import default_schedules
from autosched.runtime.device import Setting
from autosched.runtime.forms import form_of
from autosched.runtime.related import neighbours, suggestions
from autosched.te.convolution import BY_NAME
from autosched.te.layout import stored
from autosched.te.operators import batch_matmul, matmul
from measure import interpret
from measure.measurement import Evidence
from measure.record import Entrant, FinalRecord, TimingText, TrialRecord
from search_space.rules import sketches
from search_space.sketch import fill
from search_space.workload import Workload

Make = Callable[..., TrialRecord]


def rows(m: int, n: int = 96) -> Workload:
    return matmul(m, n, 64, dtype="float16", trans_b=True)


def catalog(here: Setting, *records: TrialRecord | FinalRecord) -> Catalog:
    return catalogue(records, (), here.place)


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
    assert not neighbours(rows(128, n=97), held)


@pytest.mark.parametrize(
    ("logged", "asked"),
    [
        (
            batch_matmul(8, 64, 96, 64, dtype="float16"),
            batch_matmul(9, 64, 96, 64, dtype="float16"),
        ),
        (
            batch_matmul(8, 64, 96, 64, dtype="float16"),
            batch_matmul(8, 99, 96, 64, dtype="float16"),
        ),
        *(
            (conv(n=2), conv(n=3))
            for conv in (
                lambda n: BY_NAME["conv2d"](
                    n=n, h=8, w=8, ci=16, co=16, kh=3, kw=3, pad=1, dtype="float16"
                ),
            )
        ),
    ],
)
def test_batches_and_images_are_related(
    record: Make, here: Setting, logged: Workload, asked: Workload
) -> None:
    served = next(choices(asked, catalog(here, record(logged)), here))
    assert served.source == "related"
    assert not served.proven
    assert "where" in served.reason


def test_two_extents_or_the_last_axis_make_strangers(record: Make, here: Setting) -> None:
    held = catalog(here, record(rows(64)))
    assert next(choices(rows(100, n=100), held, here)).source == "default"
    assert next(choices(rows(64, n=100), held, here)).source == "default"


def test_what_was_good_at_both_neighbours_comes_first(record: Make, here: Setting) -> None:
    """Each neighbour has a best of its own; a third schedule is nearly as good at both."""
    target = here.target
    assert target
    options = [default.schedule for default in default_schedules(rows(96), target)[:3]]

    def tried(m: int, option: int, latency_us: float) -> TrialRecord:
        chosen = options[option]
        known = {sketch.name: sketch for sketch in sketches(rows(m), target)}
        schedule = fill(known[chosen.sketch], chosen.choices).to_data()
        return record(rows(m), latency_us, schedule=schedule)

    times = {64: (10.0, 30.0, 10.5), 128: (40.0, 20.0, 20.5)}
    records = [tried(m, n, us) for m, all_us in times.items() for n, us in enumerate(all_us)]
    found = list(suggestions(rows(96), neighbours(rows(96), catalog(here, *records)), target))
    assert found[0].schedule == options[2]
    assert {s.schedule.sketch for s in found} == {o.sketch for o in options}
    assert found[0].reason.startswith("measured where 96 is ")


def test_a_related_schedule_computes_the_workload(record: Make, here: Setting) -> None:
    work = rows(37)
    served = next(choices(work, catalog(here, record(rows(64)), record(rows(20))), here))
    assert served.source == "related"
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
    assert near.source == "library"
    assert "where 100 is 64, torch was measured faster" in near.reason


@pytest.mark.parametrize("library_us", [9.95, 12.0])
def test_a_tie_is_no_win_of_torchs(record: Make, here: Setting, library_us: float) -> None:
    logged = record(rows(64), 10.0)
    held = catalog(here, logged, compared(logged, library_us))
    assert next(choices(rows(64), held, here)).source == "tuned"
