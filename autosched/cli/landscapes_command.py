"""``autosched landscapes``: what recorded landscapes hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from autosched.cli import wording
from autosched.cli.output import Output, with_output
from autosched.landscape import Landscape, load, names
from measure.measurement import Failed


@click.command("landscapes")
@click.argument("files", metavar="[FILE...]", nargs=-1)
@with_output
def command(output: Output, files: tuple[str, ...]) -> None:
    """Say what every landscape FILE holds, a file or the name of a shipped one; by default all
    that are shipped."""
    found = [_row(load(name)) for name in files or names()]
    if output.json:
        output.value(found)
        return
    columns = ("landscape", "workload", "gpu", "size", "failed", "best us", "library us", "ratio")
    output.table((*columns, "seconds", "rule", "recorded"), [_cells(row) for row in found])


def _row(held: Landscape) -> dict[str, Any]:
    head = held.head
    failures = Counter(
        point.outcome.kind.value for point in held.points if isinstance(point.outcome, Failed)
    )
    library_us = head.library.latency_us if head.library else None
    finals = [point.finals_us for point in held.points if point.finals_us]
    return {
        "name": held.name,
        "label": head.workload.label,
        "key": head.workload.key,
        "gpu": head.gpu,
        "target": head.target,
        "device": head.device,
        "schedules": len(held.points),
        "left_out": held.left_out,
        "sketches": len(held.sketches),
        "failures": dict(failures),
        "best_us": held.optimum_us if len(failures) < len(held.points) else None,
        "library_us": library_us,
        "finals": len(finals),
        "search_s": head.search_s,
        "builders": head.builders,
        "rule": head.rule.model_dump(),
        "rendering_version": head.rendering_version,
        "date": head.provenance.time[:10],
        "versions": {
            "autosched": head.provenance.autosched,
            "torch": head.provenance.torch,
            "triton": head.provenance.triton,
            "driver": head.provenance.driver,
        },
        "command": head.command,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    best_us, library_us = row["best_us"], row["library_us"]
    ratio = f"{library_us / best_us:.2f}" if best_us and library_us else "-"
    size = str(row["schedules"]) + (f" ({row['left_out']} gone)" if row["left_out"] else "")
    return (
        row["name"],
        row["label"],
        row["gpu"] or f"a model of {row['target']}",
        size,
        wording.census(row["failures"]),
        f"{best_us:.4g}" if best_us else "-",
        f"{library_us:.4g}" if library_us else "-",
        ratio,
        f"{row['search_s']:.0f}",
        row["rule"]["kind"],
        row["date"],
    )
