"""One HTML page of an experiment's folder, with nothing beside it. Runs and measures nothing.

Everything is read from the folder: what was asked for, versions, tables and runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from autosched.experiment import drawing
from autosched.experiment.drawing import Line, Panel
from autosched.experiment.error import BadFolder, MissingPackage
from autosched.experiment.folder import REPORT, RESOLVED, SUMMARY, VERSIONS, Folder
from autosched.spec import yaml_file
from cost_model.metrics import spearman

Row = Mapping[str, str]
#: Arms whose predictions are drawn.
DRAWN = 4
#: Origins of candidates that a model chose.
CHOSEN = ("evolution", "polish", "walk")
#: Features that are drawn.
FEATURES = 24
#: Headings of columns of shares, given in percent.
SHARES = {"median", "q1", "q3", "low", "high", "random", "mean", "p90", "share", "within", "regret"}


@dataclass(frozen=True)
class Grid:
    """A table of the page: columns and cells as text; those from ``numbers`` on stand right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 1


@dataclass(frozen=True)
class Part:
    """A section: what it is called, what it says, its figures and its tables."""

    title: str
    text: str
    figures: Sequence[str] = ()
    grids: Sequence[Grid] = ()


def report(path: Path, page: Path | None = None) -> Path:
    """Write the page of the folder at ``path`` and return where.

    Raises:
        BadFolder: it holds no experiment, or one that is not done.
        MissingPackage: jinja2 or matplotlib is not installed.
        measure.disk.StorageError: the page cannot be written.
    """
    folder = Folder(path)
    if not (path / SUMMARY).is_file():
        raise BadFolder(
            path, f"has no {SUMMARY}: it is no folder of an experiment, or not done yet"
        )
    text = _template().render(_context(folder))
    where = page or path / REPORT
    Folder(where.parent).write_text(where.name, text)
    return where


def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackage(f"a report needs jinja2: {drawing.INSTALL}") from error
    text = resources.files("autosched.experiment").joinpath("page.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(text)


def _context(folder: Folder) -> dict[str, Any]:
    resolved = folder.read(folder.path / RESOLVED)
    config = yaml_file.read(str(folder.path / RESOLVED)).data
    tables = {name: folder.read_table(name) for name in folder.tables()}
    summary = folder.read_json(SUMMARY)
    parts = (
        _answers(summary),
        _curves(tables),
        _regret(tables),
        _reach(tables),
        _score(tables),
        _ranking(tables),
        _predictions(folder, config),
        _failures(tables),
        _finals(tables),
        _noise(tables),
        _asking(folder, config),
    )
    return {
        "name": config["name"],
        "question": config["question"],
        "facts": _facts(config),
        "predicted": summary["predicted"],
        "parts": list(chain.from_iterable(parts)),
        "resolved": resolved,
        "versions": folder.read_json(VERSIONS),
    }


def _facts(config: Mapping[str, Any]) -> str:
    places = [held.get("name", held.get("id")) for held in _places(config)]
    words = [
        f"{len(config['arms'])} arms",
        f"{len(places)} landscapes ({', '.join(map(str, places))})",
        f"{len(config['seeds'])} seeds",
        *([f"{config['trials']} trials"] if config["kind"] != "ranking" else []),
    ]
    return ", ".join(words)


def _places(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    held: Sequence[Mapping[str, Any]] = config.get("landscapes") or config["workloads"]
    return held


def _answers(summary: Mapping[str, Any]) -> Iterator[Part]:
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
                f"{_percent(regret.get('median'))} {_interval(regret, _percent)}",
                _ratio(held.get("ratio")),
                f"{_number(score.get('median'))} {_interval(score, _number)}",
                *near,
                _percent(held.get("failed")),
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
        yield f"{_plain(middle)} ({_plain(most)})"


def _curves(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("curves", ())
    figures = []
    for n, place in enumerate(dict.fromkeys(row["landscape"] for row in rows)):
        held = [row for row in rows if row["landscape"] == place]
        panels = [_panel(held, axis) for axis in ("evaluations", "seconds")]
        figures.append(_titled(place, drawing.curves(panels, f"curve{n}")))
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


def _regret(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
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
        found.append([arm, *(f"{_percent(r['median'])} {_interval(r, _percent)}" for r in held)])
    if any(row.get("random") for row in rows):
        first = rows[0]["arm"]
        random = [_percent(cells[first, mark]["random"]) for mark in marks]
        found.append(["(random, calculated)", *random])
    return Grid([title, *(f"{float(mark):g}" for mark in marks)], found)


def _reach(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("reach", ())
    cells = [
        [
            row["landscape"],
            row["arm"],
            f"{100 * float(row['within']):g} %",
            f"{row['reached']} of {row['runs']}",
            *(_plain(row[f"{axis}_{part}"]) for axis in _AXES for part in ("median", "p90")),
        ]
        for row in rows
    ]
    if cells:
        columns = ["landscape", "arm", "within", "runs", "trials", "P90", "seconds", "P90"]
        text = "Evaluations and seconds until a time is so near the best known, over runs."
        yield Part("How soon", text, grids=[Grid(columns, cells, 3)])


_AXES = ("evaluations", "seconds")


def _score(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
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
                    f"{_number(cells[arm, m]['median'])} {_interval(cells[arm, m], _number)}"
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


def _ranking(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
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
        figures.append(_titled(arm, drawn))
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
            [*names, *(f"{_number(by[m]['median'])} {_interval(by[m], _number)}" for m in metrics)]
            for names, by in cells.items()
        ]
        yield Grid([f"{size} rows", "arm", *metrics], found, 2)


def _predictions(folder: Folder, config: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what scores promised against what was measured, for arms that have a model."""
    points: dict[str, tuple[list[float], list[float]]] = {}
    ranks = []
    for arm in (name for name, held in config["arms"].items() if held["cost_model"] != "none"):
        expected, measured = _predicted(folder, arm)
        if len(expected) > 1:
            points[arm] = expected, measured
            rank = spearman(-np.array(expected), -np.array(measured))
            ranks.append([arm, str(len(expected)), _number(rank)])
    if not points:
        return
    drawn = list(points.items())[:DRAWN]
    figures = [
        drawing.scatter(dict(drawn[n : n + 2]), "expected, us", "measured, us", f"predicted{n}")
        for n in range(0, len(drawn), 2)
    ]
    searched = (
        "What the model expected of a candidate when it was proposed (score as a time, optimism "
        "and the chance to fail included), and what it took. Only candidates that the model chose."
    )
    ranked = "What scores come to as times, and what was measured: the most rows, the first seed."
    text = ranked if config["kind"] == "ranking" else searched
    grid = Grid(["arm", "candidates", "Spearman"], ranks)
    yield Part("Expected against measured", text, figures, [grid])


def _predicted(folder: Folder, arm: str) -> tuple[list[float], list[float]]:
    expected: list[float] = []
    measured: list[float] = []
    for name in folder.runs():
        if name.arm != arm:
            continue
        head, *lines = folder.read_run(name)
        for line in lines:
            if line["kind"] == "predictions":
                expected += line["expected_us"]
                measured += line["us"]
            elif line.get("origin") in CHOSEN and line["us"] is not None:
                expected.append(head["roof_us"] * math.exp(-line["score"]))
                measured.append(line["us"])
    return expected, measured


def _failures(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("failures", ())
    kinds = [kind for kind in dict.fromkeys(row["kind"] for row in rows) if kind != "all"]
    held: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        held.setdefault((row["landscape"], row["arm"]), {})[row["kind"]] = row
    cells = [
        [
            *names,
            found["all"]["trials"],
            *(_percent(found[kind]["share"]) if kind in found else "-" for kind in ("all", *kinds)),
        ]
        for names, found in held.items()
    ]
    if cells:
        text = "Shares of the trials of all runs; (landscape) is all that was recorded."
        columns = ["landscape", "arm", "trials", "failed", *kinds]
        yield Part("Failures", text, grids=[Grid(columns, cells, 2)])


def _finals(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("finals", ())
    cells = [
        [
            row["landscape"],
            row["arm"],
            row["method"],
            row["entrants"],
            row["rounds"] or "-",
            *(_percent(row[name], 3) for name in ("mean", "median", "p90")),
        ]
        for row in rows
    ]
    if cells:
        text = (
            "What is lost by taking the wrong one at the end, simulated from recorded repeats: the "
            "chosen schedule's time over that of the best that was tried, less 1."
        )
        columns = ["landscape", "arm", "choice", "entrants", "rounds", "mean", "median", "P90"]
        yield Part("Finals", text, grids=[Grid(columns, cells, 3)])


def _noise(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("noise", ())
    names = ("halves_median", "halves_p90", "finals_median", "finals_p90", "finals_shift")
    cells = [
        [row["landscape"], row["schedules"], *(_percent(row[name], 3) for name in names)]
        for row in rows
    ]
    if cells:
        text = (
            "How far apart two timings of one schedule are: halves of the repeats of one timing, "
            "and the search's timing against that of the closing comparison, less the shift that "
            "all have in common. A difference below it is none."
        )
        columns = [
            "landscape",
            "schedules",
            "halves",
            "P90",
            "search against final",
            "P90",
            "shift",
        ]
        yield Part("Noise floor", text, grids=[Grid(columns, cells)])


def _asking(folder: Folder, config: Mapping[str, Any]) -> Iterator[Part]:
    spent: dict[str, list[float]] = {}
    for line in folder.read_timings():
        if line.get("asks"):
            spent.setdefault(line["arm"], []).append(line["ask_s"] / line["asks"])
    cells = [[arm, f"{1000 * float(np.median(held)):.1f}"] for arm, held in spent.items()]
    if cells:
        clock = config["clock"]
        text = (
            f"Milliseconds a batch that asking took of the processor that ran this, the median "
            f"over runs. It differs from rerun to rerun and enters no other figure: the clock of "
            f"runs is charged {clock['ask_s']:g} s a batch, with a model that learns "
            f"{clock['learn_s']:g} s more, and {clock['row_s']:g} s for each row that it was told, "
            f"unless the arm says otherwise."
        )
        yield Part("Time of the search itself", text, grids=[Grid(["arm", "ms a batch"], cells)])


def _titled(title: str, figure: str) -> str:
    safe = title.replace("&", "&amp;").replace("<", "&lt;")
    return f"<figure><figcaption>{safe}</figcaption>{figure}</figure>"


def _percent(value: Any, digits: int = 2) -> str:
    return "-" if value in (None, "") else f"{100 * float(value):.{digits}f} %"


def _number(value: Any) -> str:
    return "-" if value in (None, "") else f"{float(value):.3f}"


def _plain(value: Any) -> str:
    return "never" if value in (None, "") else f"{float(value):.4g}"


def _interval(held: Mapping[str, Any], write: Any) -> str:
    ends = (held.get("low"), held.get("high"))
    return "" if None in ends or "" in ends else f"[{write(ends[0])}, {write(ends[1])}]"


def _ratio(held: Sequence[float] | None) -> str:
    return "-" if not held else f"{held[0]:.4f} [{held[1]:.4f}, {held[2]:.4f}]"
