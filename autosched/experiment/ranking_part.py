"""The sections of a page on models that were ranked without a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autosched.experiment import drawing
from autosched.experiment.drawing import Line, Panel
from autosched.experiment.part import Grid, Part, interval, number, titled

Row = Mapping[str, str]
Tables = Mapping[str, Sequence[Row]]
#: Features that are drawn.
FEATURES = 24


def ranking(tables: Tables) -> Iterator[Part]:
    """Yield how well models rank, and which features they lean on."""
    rows = tables.get("ranking", ())
    whole = "all" if any(row["landscape"] == "all" for row in rows) else None
    own = [row for row in rows if whole in (None, row["landscape"])]
    if own:
        panels = [_learning(own, metric) for metric in ("top_1", "spearman", "spearman_best")]
        figure = drawing.curves([panel for panel in panels if panel.lines], "learning")
        text = (
            "How well scores order schedules that were not learnt, over the rows that were. top k: "
            "the best time of all over the best among the k highest scores. spearman_best: within "
            "the best tenth. Median over seeds, and its 95 % bootstrap interval."
        )
        yield Part("Ranking", text, [figure], list(_ranked(rows)))
    rows = tables.get("importance", ())
    figures = []
    for n, arm in enumerate(dict.fromkeys(row["arm"] for row in rows)):
        held = [row for row in rows if row["arm"] == arm][:FEATURES]
        values = {row["feature"]: float(row["lost"]) for row in held}
        drawn = drawing.bars(values, "pairwise accuracy lost", f"importance{n}")
        figures.append(titled(arm, drawn))
    if figures:
        text = (
            "By how much pairwise accuracy falls where one feature is shuffled within a workload, "
            "the mean over landscapes; the first of each arm."
        )
        yield Part("Feature importance", text, figures)


def _learning(rows: Sequence[Row], metric: str) -> Panel:
    lines = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        held = [r for r in rows if (r["arm"], r["metric"]) == (arm, metric) and r["median"]]
        sizes = [float(row["rows"]) if row["rows"] != "all" else None for row in held]
        known = [size for size in sizes if size is not None]
        x = [2 * max(known, default=500.0) if size is None else size for size in sizes]
        parts = ([float(row[name]) for row in held] for name in ("median", "low", "high"))
        lines += [Line(arm, x, *parts)] if held else []
    return Panel("rows (all at the right)", metric, lines, log_x=True)


def _ranked(rows: Sequence[Row]) -> Iterator[Grid]:
    for size in dict.fromkeys(row["rows"] for row in rows):
        held = [row for row in rows if row["rows"] == size]
        metrics = list(dict.fromkeys(row["metric"] for row in held))
        cells: dict[tuple[str, str], dict[str, Row]] = {}
        for row in held:
            cells.setdefault((row["landscape"], row["arm"]), {})[row["metric"]] = row
        found = [
            [*names, *(f"{number(by[m]['median'])} {interval(by[m], number)}" for m in metrics)]
            for names, by in cells.items()
        ]
        yield Grid([f"{size} rows", "arm", *metrics], found, 2)
