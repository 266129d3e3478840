"""``autosched experiment``: compare arms over landscapes, report what came of it, compare two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from autosched.cli.exit_code import ExitCode
from autosched.cli.output import Output, with_output
from autosched.experiment import loader
from autosched.experiment.curve import Curve
from autosched.experiment.difference import Difference, compare
from autosched.experiment.folder import SUMMARY, TABLES
from autosched.experiment.run import RunDone, run

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group("experiment", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Compare strategies and cost models on recorded landscapes, in a way that anyone repeats."""


@command.command("run")
@click.argument("file", metavar="FILE")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder; one that holds part of the same experiment is gone on with.",
)
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--landscape", multiple=True, help="Instead of the file's; may be given again.")
@click.option("--trials", type=click.IntRange(1, 1_000_000), help="Instead of the file's.")
@click.option("--seeds", type=click.IntRange(1, 10_000), help="So many, instead of the file's.")
@click.option("--only", default="", help="Arms, separated by commas.")
@click.option("--small", is_flag=True, help="A quick look: few trials, two seeds, two landscapes.")
@with_output
def run_command(
    output: Output,
    file: str,
    out: Path,
    jobs: int,
    landscape: tuple[str, ...],
    trials: int | None,
    seeds: int | None,
    only: str,
    small: bool,
) -> None:
    """Run the experiment of a YAML FILE into a folder: a log a run, tables and a summary.

    Equal files, versions and landscapes give equal bytes, whatever --jobs. Interrupted, it keeps
    the runs that are done, and the same command goes on.
    """
    wished = loader.Overrides(
        landscapes=landscape,
        trials=trials,
        seeds=seeds,
        only=tuple(filter(None, only.split(","))),
        small=small,
    )
    experiment = loader.load(file, wished)
    summary = run(experiment, out, jobs=jobs, events=lambda event: _say(output, event))
    if output.json:
        output.value(summary)
        return
    _print(output, summary)
    output.say(f"written to {out}: {SUMMARY}, {TABLES}; 'autosched experiment report {out}'")


def _say(output: Output, event: RunDone) -> None:
    *lines, last = event.lines
    if lines[0]["optimum_us"] is None:
        times = [line["us"] for line in lines[1:] if line["us"] is not None]
        said = f"{min(times):.4g} us" if times else "nothing"
        said += f" after {last['trials']} trials, {last['at_s']:.1f} s"
    elif lines[-1]["kind"] == "trial":
        ratio = float(Curve.of(event.name, event.lines).after(len(lines)))
        share = f"within {100 * (ratio - 1):.1f} % of the best known"
        found = share if ratio < float("inf") else "nothing"
        said = f"{found} after {last['trials']} trials, {last['at_s']:.1f} s"
    else:
        said = f"{last['trials']} schedules judged"
    output.say(f"{event.done} of {event.total}: {event.name}: {said}")


def _print(output: Output, summary: Mapping[str, Any]) -> None:
    output.say(summary["question"])
    columns = _COLUMNS if summary["kind"] != "ranking" else _ranking_columns(summary)
    rows = [
        [name, *(_cell(read, held) for read in columns.values())]
        for name, held in summary["arms"].items()
    ]
    output.table(["arm", *columns], rows)


def _ranking_columns(summary: Mapping[str, Any]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    first = next(iter(summary["arms"].values())).get("ranking", {})

    def reader(metric: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda held: f"{held['ranking'][metric]['median']:.3f}"

    return {f"{name} ratio": reader(name) for name in first if name != "rows"}


def _share(value: Any) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _regret(held: Mapping[str, Any]) -> str:
    found = held["regret"]
    return f"{_share(found['median'])} [{_share(found['low'])}, {_share(found['high'])}]"


def _score(held: Mapping[str, Any]) -> str:
    return f"{held['score']['median']:.3f}"


def _evaluations(held: Mapping[str, Any]) -> str:
    (within, found), *_ = held["reach"].items()
    median = found["evaluations_median"]
    shown = "never" if median is None else f"{median:g}"
    return f"{shown} (to {100 * float(within):g} %)"


_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "regret ratio": _regret,
    "score ratio": _score,
    "evaluations trials": _evaluations,
    "failed": lambda held: _share(held["failed"]),
}


def _cell(read: Callable[[Mapping[str, Any]], str], held: Mapping[str, Any]) -> str:
    """Return what ``read`` makes of an arm; a dash where its table was not wished for."""
    try:
        return read(held)
    except (KeyError, TypeError, ValueError):
        return "-"


@command.command("report")
@click.argument("folder", type=_FOLDER)
@click.option(
    "-o",
    "--output",
    "page",
    envvar="AUTOSCHED_EXPERIMENT_REPORT_OUTPUT",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page (default: report.html in the folder).",
)
@with_output
def report_command(output: Output, folder: Path, page: Path | None) -> None:
    """Make one HTML page of what FOLDER holds: curves, tables, failures, config and versions."""
    # Imported where wanted: drawing takes packages that nothing else needs.
    from autosched.experiment.report import report

    path = report(folder, page)
    if output.json:
        output.value({"page": str(path)})
    else:
        output.text(str(path))


@command.command("diff")
@click.argument("first", type=_FOLDER)
@click.argument("second", type=_FOLDER)
@with_output
@click.pass_context
def diff_command(ctx: click.Context, /, output: Output, first: Path, second: Path) -> None:
    """Compare the folders FIRST and SECOND; exit 0 if they hold the same, else 1.

    Named are the first run and trial, the first table and whatever else differs. Timings of this
    machine, and where landscapes lie, are no difference; versions are noted.
    """
    verdict = compare(first, second)
    if output.json:
        output.value(
            {
                "identical": verdict.identical,
                "differences": [found.to_data() for found in verdict.differences],
                "notes": list(verdict.notes),
            }
        )
    else:
        lines = [_line(found) for found in verdict.differences] or ["identical"]
        output.text("\n".join(lines))
        for note in verdict.notes:
            output.say(f"versions differ: {note}")
    ctx.exit(ExitCode.DONE if verdict.identical else ExitCode.NO)


def _line(found: Difference) -> str:
    where = f" {found.run}" if found.run else ""
    where += "" if found.trial is None else f", trial {found.trial}"
    return f"{found.part}{where}: {found.fact}"
