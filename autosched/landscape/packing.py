"""From the run of a log to a landscape's file. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from autosched.landscape.form import Head, Line, Rule, SketchText
from measure.record import FinalRecord, RunRecord, TimingText, TrialRecord

#: No candidate takes this long: the run was ended in between, and resumed.
PAUSE_S = 60.0


def pack_run(
    start: RunRecord,
    trials: Sequence[TrialRecord],
    final: FinalRecord | None,
    *,
    rule: Rule,
    builders: int,
    command: str,
) -> tuple[Head, tuple[Line, ...]]:
    """Return head and lines of a landscape from what a run logged; ``trials`` hold one at least.

    Schedules stand in the order of their trials. A pause of more than ``PAUSE_S`` between two of
    them counts as one in which nothing was measured.
    """
    sketches: dict[str, tuple[str, ...]] = {}
    for trial in trials:
        name, choices = _choices(trial)
        sketches.setdefault(name, tuple(choices))
    place = {name: n for n, name in enumerate(sketches)}
    finals = {e.program: e.timing for e in final.entrants} if final else {}
    lines = tuple(_line(trial, place, sketches, finals) for trial in trials)
    first = trials[0]
    head = Head(
        spec=start.spec,
        workload=first.workload,
        device=start.device,
        target=start.target,
        gpu=start.gpu,
        rendering_version=first.rendering_version,
        rule=rule,
        sketches=tuple(SketchText(name=name, choices=held) for name, held in sketches.items()),
        library=final.library if final else None,
        builders=builders,
        search_s=round(_search_s(trials), 3),
        command=command,
        provenance=first.provenance,
    )
    return head, lines


def _line(
    trial: TrialRecord,
    place: Mapping[str, int],
    sketches: Mapping[str, tuple[str, ...]],
    finals: Mapping[str, TimingText | None],
) -> Line:
    name, choices = _choices(trial)
    timing = finals.get(trial.program) if trial.program else None
    return Line(
        sketch=place[name],
        choices=tuple(choices[choice] for choice in sketches[name]),
        program=trial.program,
        measurement=trial.measurement,
        facts=trial.facts,
        evidence=trial.evidence,
        finals_us=timing.samples_us if timing else (),
    )


def _search_s(trials: Sequence[TrialRecord]) -> float:
    times = sorted(datetime.fromisoformat(trial.provenance.time) for trial in trials)
    gaps = ((b - a).total_seconds() for a, b in pairwise(times))
    return sum(gap for gap in gaps if gap <= PAUSE_S)


def _choices(trial: TrialRecord) -> tuple[str, dict[str, int]]:
    return trial.schedule["sketch"], trial.schedule["choices"]
