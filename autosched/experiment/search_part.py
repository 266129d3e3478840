"""The sections of a page on searches and suites: what was found, and how soon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autosched.experiment import drawing
from autosched.experiment.drawing import Line, Panel
from autosched.experiment.part import Grid, Part, interval, number, percent, plain, ratio, titled

Row = Mapping[str, str]
Tables = Mapping[str, Sequence[Row]]
_AXES = ("evaluations", "seconds")


def answers(summary: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what the arms came to over all landscapes."""
    if summary["kind"] == "ranking":
        return
    first = next(iter(summary["arms"]))
    rows = []
    for name, held in summary["arms"].items():
        regret, score = held.get("regret", {}), held.get("score", {})
        near = [cell for found in held.get("reach", {}).values() for cell in _near(found)]
        rows.append(
            [
                name,
                f"{percent(regret.get('median'))} {interval(regret, percent)}",
                ratio(held.get("ratio")),
                f"{number(score.get('median'))} {interval(score, number)}",
                *near,
                percent(held.get("failed")),
            ]
        )
    within = [
        f"{100 * float(w):g} %" for w in next(iter(summary["arms"].values())).get("reach", {})
    ]
    near_columns = [c for w in within for c in (f"trials to {w} (P90)", f"seconds to {w} (P90)")]
    columns = ["arm", "regret at the end", f"time over {first}'s", "score", *near_columns, "failed"]
    text = (
        "Over all landscapes. Regret: the best time found over the best known, less 1, the median "
        "over seeds with its 95 % bootstrap interval. Time over the first arm's: paired by seed, "
        "below 1 is faster. Score: 0 is calculated random search, 1 the best known at once."
    )
    yield Part("Answer", text, grids=[Grid(columns, rows)])


def _near(found: Mapping[str, Any]) -> Iterator[str]:
    for axis in ("evaluations", "seconds"):
        middle, most = found[f"{axis}_median"], found[f"{axis}_p90"]
        yield f"{plain(middle)} ({plain(most)})"


def curves(tables: Tables) -> Iterator[Part]:
    """Yield best so far over evaluations and over seconds."""
    rows = tables.get("curves", ())
    figures = []
    for n, place in enumerate(dict.fromkeys(row["landscape"] for row in rows)):
        held = [row for row in rows if row["landscape"] == place]
        panels = [_panel(held, axis) for axis in ("evaluations", "seconds")]
        figures.append(titled(place, drawing.curves(panels, f"curve{n}")))
    if figures:
        text = (
            "Speed of the best found so far over that of the best known; the line is the median "
            "over seeds, the band its 95 % bootstrap interval. Dotted: the expectation of random "
            "search, calculated from the landscape. Seconds are those of the simulated clock."
        )
        yield Part("Best so far", text, figures)


def _panel(rows: Sequence[Row], axis: str) -> Panel:
    lines = []
    own = [row for row in rows if row["axis"] == axis]
    for arm in dict.fromkeys(row["arm"] for row in own):
        held = [row for row in own if row["arm"] == arm]
        x = [float(row["at"]) for row in held]
        parts = (_speeds(held, name) for name in ("median", "high", "low"))
        lines.append(Line(arm, x, *parts))
    if axis == "evaluations" and own and own[0]["random"]:
        first = [row for row in own if row["arm"] == own[0]["arm"]]
        x = [float(row["at"]) for row in first]
        lines.append(Line("(random, calculated)", x, _speeds(first, "random")))
    middles = [y for line in lines for y in line.y[len(line.y) // 8 :] if y > 0]
    lowest = max(0.0, min(middles, default=0.0) - 0.05)
    ylabel = "share of the best known speed" if axis == "evaluations" else ""
    return Panel(axis, ylabel, lines, from_y=lowest, to_y=1.01)


def _speeds(rows: Sequence[Row], name: str) -> list[float]:
    return [1 / float(row[name]) if row[name] else 0.0 for row in rows]


def regret(tables: Tables) -> Iterator[Part]:
    """Yield the regrets at checkpoints."""
    rows = tables.get("regret", ())
    grids = []
    for place in dict.fromkeys(row["landscape"] for row in rows):
        for axis in ("evaluations", "seconds"):
            held = [r for r in rows if (r["landscape"], r["axis"]) == (place, axis)]
            if held:
                grids.append(_checkpoints(held, f"{place}, {axis}"))
    if grids:
        text = "Median over seeds of the regret, and its 95 % bootstrap interval."
        yield Part("Regret at checkpoints", text, grids=grids)


def _checkpoints(rows: Sequence[Row], title: str) -> Grid:
    marks = list(dict.fromkeys(row["at"] for row in rows))
    cells = {(row["arm"], row["at"]): row for row in rows}
    found = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        held = [cells[arm, mark] for mark in marks]
        found.append([arm, *(f"{percent(r['median'])} {interval(r, percent)}" for r in held)])
    if any(row.get("random") for row in rows):
        first = rows[0]["arm"]
        random = [percent(cells[first, mark]["random"]) for mark in marks]
        found.append(["(random, calculated)", *random])
    return Grid([title, *(f"{float(mark):g}" for mark in marks)], found)


def reach(tables: Tables) -> Iterator[Part]:
    """Yield how soon runs came near the best known."""
    rows = tables.get("reach", ())
    cells = [
        [
            row["landscape"],
            row["arm"],
            f"{100 * float(row['within']):g} %",
            f"{row['reached']} of {row['runs']}",
            *(plain(row[f"{axis}_{part}"]) for axis in _AXES for part in ("median", "p90")),
        ]
        for row in rows
    ]
    if cells:
        columns = ["landscape", "arm", "within", "runs", "trials", "P90", "seconds", "P90"]
        text = "Evaluations and seconds until a time is so near the best known, over runs."
        yield Part("How soon", text, grids=[Grid(columns, cells, 3)])


def score(tables: Tables) -> Iterator[Part]:
    """Yield the score against calculated random search."""
    rows = tables.get("score", ())
    grids = []
    for place in dict.fromkeys(row["landscape"] for row in rows):
        held = [row for row in rows if row["landscape"] == place]
        marks = list(dict.fromkeys(row["at"] for row in held))
        cells = {(row["arm"], row["at"]): row for row in held}
        found = [
            [
                arm,
                *(
                    f"{number(cells[arm, m]['median'])} {interval(cells[arm, m], number)}"
                    for m in marks
                ),
            ]
            for arm in dict.fromkeys(row["arm"] for row in held)
        ]
        grids.append(Grid([place, *marks], found))
    if grids:
        text = (
            "P = (random - ours) / (random - best known), in times: random is calculated, so that "
            "0 is random search and 1 the best known; mean over evaluations, and at checkpoints."
        )
        yield Part("Score against random search", text, grids=grids)
