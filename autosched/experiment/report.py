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
    return (
        f"{len(config['arms'])} arms, {len(places)} landscapes ({', '.join(map(str, places))}), "
        f"{len(config['seeds'])} seeds, {config['trials']} trials"
    )


def _places(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    held: Sequence[Mapping[str, Any]] = config.get("landscapes") or config["workloads"]
    return held


def _answers(summary: Mapping[str, Any]) -> Iterator[Part]:
    if summary["kind"] != "search":
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
    if axis == "evaluations" and own:
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
    if rows:
        columns = list(rows[0])
        cells = [[_ranked(name, row[name]) for name in columns] for row in rows]
        yield Part("Ranking of what was not learnt", "", grids=[Grid(columns, cells, 3)])
    rows = tables.get("importance", ())
    figures = []
    for n, arm in enumerate(dict.fromkeys(row["arm"] for row in rows)):
        held = [row for row in rows if row["arm"] == arm][:FEATURES]
        values = {row["feature"]: float(row["share"]) for row in held}
        drawn = drawing.bars(values, "share of the trees' gain", f"importance{n}")
        figures.append(_titled(arm, drawn))
    if figures:
        yield Part("Feature importance", "", figures)


def _ranked(name: str, value: str) -> str:
    if not value or name in ("landscape", "arm", "rows", "seeds", "metric"):
        return value or "-"
    return _number(value)


def _predictions(folder: Folder, config: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what scores promised against what was measured, for arms whose model learns."""
    points: dict[str, tuple[list[float], list[float]]] = {}
    ranks = []
    learning = [name for name, arm in config["arms"].items() if arm["model"]]
    for arm in learning:
        predicted, measured = _predicted(folder, arm)
        if len(predicted) > 1:
            points[arm] = predicted, measured
            rank = spearman(-np.array(predicted), -np.array(measured))
            ranks.append([arm, str(len(predicted)), _number(rank)])
    if not points:
        return
    drawn = dict(list(points.items())[:DRAWN])
    figure = drawing.scatter(drawn, "expected when proposed, us", "measured, us", "predicted")
    text = (
        "What the model expected of a candidate when it was proposed (score as a time, optimism "
        "and the chance to fail included), and what it took. Only candidates that the model chose."
    )
    grid = Grid(["arm", "candidates", "Spearman"], ranks)
    yield Part("Expected against measured", text, [figure], [grid])


def _predicted(folder: Folder, arm: str) -> tuple[list[float], list[float]]:
    predicted, measured = [], []
    for name in folder.runs():
        if name.arm != arm:
            continue
        head, *lines = folder.read_run(name)
        for line in lines:
            if line.get("origin") in ("evolution", "polish") and line["us"] is not None:
                predicted.append(head["roof_us"] * math.exp(-line["score"]))
                measured.append(line["us"])
    return predicted, measured


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
            *(_percent(row[name], 3) for name in ("mean", "median", "p90")),
        ]
        for row in rows
    ]
    if cells:
        text = (
            "What is lost by taking the wrong one at the end, simulated from recorded repeats: the "
            "chosen schedule's time over that of the best that was tried, less 1."
        )
        columns = ["landscape", "arm", "choice", "entrants", "mean", "median", "P90"]
        yield Part("Finals", text, grids=[Grid(columns, cells, 3)])


def _noise(tables: Mapping[str, Sequence[Row]]) -> Iterator[Part]:
    rows = tables.get("noise", ())
    names = ("halves_median", "halves_p90", "finals_median", "finals_p90")
    cells = [
        [row["landscape"], row["schedules"], *(_percent(row[name], 3) for name in names)]
        for row in rows
    ]
    if cells:
        text = (
            "How far apart two timings of one schedule are: halves of the repeats of one timing, "
            "and the search's timing against that of the closing comparison. A difference below "
            "it is none."
        )
        columns = ["landscape", "schedules", "halves", "P90", "search against final", "P90"]
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
            f"Milliseconds a batch that asking took on the machine that ran this, the median over "
            f"runs. It differs from rerun to rerun and enters no other figure: the clock of runs "
            f"is charged {clock['ask_s']:g} s a batch, and {clock['row_s']:g} s for each row that "
            f"a learning model has been told."
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
