"""Results of a suite on one GPU as JSON and as a table; several runs merge into one file.

Knows nothing of how rows were measured.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.bench.row import geometric_mean

Data = Mapping[str, Any]


#: A row is listed as slower where its ratio is below this.
SLOWER = 0.97
#: What quick effort is held to: seconds, and its speed over ours.
QUICK_S = 10.0
QUICK_SHARE = 0.95


class BadResults(ValueError):
    """A results file that cannot be merged into; the message names it and says why."""


def merge(old: Data | None, new: Data, order: Sequence[str]) -> dict[str, Any]:
    """Return ``new`` with the rows of ``old`` that it does not replace, in the suite's order.

    ``runs`` keeps date, command, versions and workloads of every run that left a row. Raises
    BadResults where the GPUs differ.
    """
    if old is None:
        return dict(new) | {"runs": [_run(new)]}
    if old["machine"].get("gpu") != new["machine"].get("gpu"):
        raise BadResults(
            f"results of {old['machine'].get('gpu')} do not merge with results of "
            f"{new['machine'].get('gpu')}: choose another --out"
        )
    rows = {row["workload"]: row for row in (*old["rows"], *new["rows"])}
    place = {name: n for n, name in enumerate(order)}
    ordered = sorted(rows.values(), key=lambda row: place.get(row["workload"], len(place)))
    against = list(dict.fromkeys((*old["against"], *new["against"])))
    return dict(new) | {"against": against, "rows": ordered, "runs": _runs(old, new)}


def _runs(old: Data, new: Data) -> list[dict[str, Any]]:
    replaced = {row["workload"] for row in new["rows"]}
    kept = [
        dict(run) | {"workloads": [w for w in run["workloads"] if w not in replaced]}
        for run in old.get("runs", [])
    ]
    return [*(run for run in kept if run["workloads"]), _run(new)]


def _run(data: Data) -> dict[str, Any]:
    return {
        "date": data["date"],
        "command": data["command"],
        "versions": data["versions"],
        "workloads": [row["workload"] for row in data["rows"]],
    }


def read(path: Path) -> dict[str, Any] | None:
    """Return the results at ``path``; None where there are none. Raises BadResults."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadResults(f"{path}: not JSON ({error}): move it away to start afresh") from error
    if not isinstance(data, dict) or not {"machine", "against", "rows"} <= set(data):
        raise BadResults(
            f"{path}: no results of a benchmark: it lacks 'machine', 'against' or 'rows'"
        )
    return data


def write(path: Path, data: Data) -> None:
    """Write ``data`` to ``path`` and its table beside it, each replaced at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, json.dumps(data, indent=1) + "\n")
    _replace(path.with_suffix(".md"), table(data))


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, "utf-8")
    os.replace(fresh, path)  # noqa: PTH105 - atomic, and Path.replace says the same


def table(data: Data) -> str:
    """Return the results as Markdown: where and how they were made, a table, the means."""
    against = list(data["against"])
    lines = [f"# {data['suite']} on {data['machine'].get('gpu')}", "", *_origin(data), ""]
    if any(row["predicted"] for row in data["rows"]):
        lines += ["**Predicted by a model, not measured.**", ""]
    head = ["workload", "ours us", *(f"{name} us" for name in against)]
    head += [*(f"{name} / ours" for name in against), "TFLOP/s", "of roofline", "sketch"]
    head += ["trials", "tuned in s", "rel. error"]
    hosted = [n for n in ("ours", *against) if any(f"{n}_host_us" in r for r in data["rows"])]
    head += [f"{name} host us" for name in hosted]
    with_constants = any(row.get("constant") for row in data["rows"])
    head += ["constant"] * with_constants
    with_quick = any(row.get("quick_s") is not None for row in data["rows"])
    head += ["quick us", "ours / quick", "quick tuned in s"] * with_quick
    lines += [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for row in data["rows"]:
        constant = ", ".join(row.get("constant", ())) or "-"
        cells = [*_cells(row, against), *_host(row, hosted), *[constant] * with_constants]
        lines.append(_line([*cells, *(_quick_cells(row) if with_quick else ())]))
    lines += ["", *_means(data["rows"], against), *_notes(data["rows"])]
    return "\n".join(lines).rstrip() + "\n"


def _origin(data: Data) -> list[str]:
    versions = ", ".join(f"{name} {value}" for name, value in data["versions"].items())
    machine = ", ".join(f"{name} {value}" for name, value in data["machine"].items())
    runs = data.get("runs") or [_run(data)]
    said = dict.fromkeys((run["command"], run["date"]) for run in runs)
    commands = [f"    {command}    # {date}" for command, date in said]
    text = (
        "GPU time alone: medians of interleaved runs with a cold L2, with the 95 % interval of "
        "the median. Ratios are paired, above 1 where ours is faster. Roofline: the larger of "
        "operations and compulsory bytes over sustained rates, a reference and no bound."
    )
    return [text, "", f"Machine: {machine}. Versions: {versions}.", "", *commands]


def _cells(row: Data, against: Sequence[str]) -> list[str]:
    times = [_spread(row, f"{name}_us", "{:.4g}") for name in ("ours", *against)]
    ratios = [_spread(row, f"ratio_{name}", "{:.3f}") for name in against]
    share = row["roofline_share"]
    sketch = row["sketch"] or row["source"] or "-"
    if row["sketch"] and row["source"] != "tuned":
        sketch += f" ({row['source']})"
    return [
        row["workload"],
        *times,
        *ratios,
        _number(row["tflops"], "{:.4g}"),
        _number(share, "{:.2f}"),
        sketch,
        _number(row["trials"], "{}"),
        _number(row["tune_s"], "{:.1f}"),
        _number(row["rel_err"], "{:.1e}"),
    ]


def _host(row: Data, names: Sequence[str]) -> list[str]:
    return [_number(row.get(f"{name}_host_us"), "{:.1f}") for name in names]


def _quick_cells(row: Data) -> list[str]:
    return [
        _spread(row, "quick_us", "{:.4g}"),
        _spread(row, "quick_share", "{:.3f}"),
        _number(row.get("quick_s"), "{:.1f}"),
    ]


def _spread(row: Data, name: str, form: str) -> str:
    if row.get(name) is None:
        return "-"
    value, low, high = (form.format(row[n]) for n in (name, f"{name}_low", f"{name}_high"))
    return value if low == high else f"{value} [{low}, {high}]"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _means(rows: Sequence[Data], against: Sequence[str]) -> list[str]:
    """Say the means over rows without constant inputs, which the baselines know nothing of."""
    lines = []
    fair = [row for row in rows if not row.get("constant")]
    for name in against:
        ratios = [row[f"ratio_{name}"] for row in fair if row.get(f"ratio_{name}")]
        mean = geometric_mean(ratios)
        if mean is not None:
            lines.append(
                f"Geometric mean of {name} / ours over {len(ratios)} of {len(fair)} workloads: "
                f"**{mean:.3f}**, lowest {min(ratios):.3f}."
            )
    lines += [line for name in against for line in _by_kind(fair, name)]
    lines += [line for name in against for line in _by_tag(fair, name)]
    early = [row["first8_ratio"] for row in rows if row.get("first8_ratio")]
    if early:
        lines.append(
            f"Geometric mean of the best of the first 8 trials over the best of all, "
            f"{len(early)} workloads: **{geometric_mean(early):.3f}**."
        )
    lines += _quick(rows)
    if len(fair) < len(rows):
        lines += ["" for _ in lines[:1]]
        lines.append(
            f"Rows with constant inputs ({len(rows) - len(fair)}) are in no mean: their packing is "
            "left out of our time, and the libraries are not told of it."
        )
    return [*lines, ""] if lines else []


def _by_kind(rows: Sequence[Data], name: str) -> list[str]:
    """Say the mean over aligned and over ieee rows, and which rows are surely slower."""
    lines = []
    for kind in ("aligned", "ieee"):
        alike = [row for row in rows if row.get("kind") == kind]
        lines += _mean_over(alike, f"{kind} workloads", name)
    slower = [r["workload"] for r in rows if (r.get(f"ratio_{name}_high") or 1.0) < SLOWER]
    if slower:
        lines.append(f"Below {SLOWER} of {name} by the interval's upper end: {', '.join(slower)}.")
    return lines


def _quick(rows: Sequence[Data]) -> list[str]:
    """Say how quick effort stands to what serves, and which rows miss what it is held to."""
    tried = [row for row in rows if row.get("quick_s") is not None]
    shares = [row["quick_share"] for row in tried if row.get("quick_share")]
    mean = geometric_mean(shares)
    if mean is None:
        return []
    slow = [r["workload"] for r in tried if (r.get("quick_share") or 0.0) < QUICK_SHARE]
    late = [r["workload"] for r in tried if r["quick_s"] > QUICK_S]
    seconds = [row["quick_s"] for row in tried]
    return [
        f"Quick effort: {min(seconds):.1f} to {max(seconds):.1f} s a workload; its speed over ours "
        f"has the geometric mean **{mean:.3f}** over {len(shares)} workloads, lowest "
        f"{min(shares):.3f}. Below {QUICK_SHARE}: {', '.join(slow) or 'none'}. "
        f"Above {QUICK_S:g} s: {', '.join(late) or 'none'}."
    ]


def _by_tag(rows: Sequence[Data], name: str) -> list[str]:
    """Say the mean over the rows of each tag, in the order in which tags first occur."""
    tags = dict.fromkeys(tag for row in rows for tag in row.get("tags", ()))
    return [
        line
        for tag in tags
        for line in _mean_over([r for r in rows if tag in r.get("tags", ())], f"of {tag}", name)
    ]


def _mean_over(rows: Sequence[Data], called: str, name: str) -> list[str]:
    ratios = [row[f"ratio_{name}"] for row in rows if row.get(f"ratio_{name}")]
    mean = geometric_mean(ratios)
    if mean is None:
        return []
    said = f"Over {len(ratios)} {called}: {name} / ours **{mean:.3f}**"
    return [f"{said}, lowest {min(ratios):.3f}."]


def _notes(rows: Sequence[Data]) -> list[str]:
    return [f"- {row['workload']}: {note}" for row in rows for note in row["notes"]]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
