"""One HTML page of an experiment's folder, with nothing beside it. Runs and measures nothing.

Everything is read from the folder: what was asked for, versions, tables and runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from autosched.experiment import drawing, ranking_part, search_part
from autosched.experiment.error import BadFolder, MissingPackage
from autosched.experiment.folder import REPORT, RESOLVED, SUMMARY, VERSIONS, Folder
from autosched.experiment.part import Grid, Part, number, percent
from autosched.spec import yaml_file
from cost_model.metrics import spearman

Row = Mapping[str, str]
#: Arms whose predictions are drawn.
DRAWN = 4
#: Origins of candidates that a model chose.
CHOSEN = ("evolution", "polish", "walk")


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
        search_part.answers(summary),
        search_part.curves(tables),
        search_part.regret(tables),
        search_part.reach(tables),
        search_part.score(tables),
        ranking_part.ranking(tables),
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


def _predictions(folder: Folder, config: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what scores promised against what was measured, for arms that have a model."""
    points: dict[str, tuple[list[float], list[float]]] = {}
    ranks = []
    for arm in (name for name, held in config["arms"].items() if held["cost_model"] != "none"):
        expected, measured = _predicted(folder, arm)
        if len(expected) > 1:
            points[arm] = expected, measured
            rank = spearman(-np.array(expected), -np.array(measured))
            ranks.append([arm, str(len(expected)), number(rank)])
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
            *(percent(found[kind]["share"]) if kind in found else "-" for kind in ("all", *kinds)),
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
            *(percent(row[name], 3) for name in ("mean", "median", "p90")),
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
        [row["landscape"], row["schedules"], *(percent(row[name], 3) for name in names)]
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
            f"runs is charged {clock['ask_s']:g} s a batch, with a model that was told of rows "
            f"{clock['learn_s']:g} s more, and {clock['row_s']:g} s for each of them, unless the "
            f"arm says otherwise."
        )
        yield Part("Time of the search itself", text, grids=[Grid(["arm", "ms a batch"], cells)])
