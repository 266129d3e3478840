"""``autosched extract``: the workloads that a model is made of, as a suite to tune."""

from __future__ import annotations

from pathlib import Path

import click

from autosched.cli.output import Output, with_output
from autosched.cli.wording import count
from autosched.models.extract import NotRunnable, extract, load, to_yaml
from autosched.models.fold import NotFoldable


@click.command("extract", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("place", metavar="FILE.py:FUNCTION")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("tasks.yaml"),
    show_default=True,
)
@click.option(
    "--fold",
    is_flag=True,
    help="Fold batch norms and activations into convolutions first, as accelerate(fold=True).",
)
@with_output
def command(output: Output, place: str, out: Path, fold: bool) -> None:
    """Run a model once and write its distinct products and convolutions.

    FUNCTION takes nothing and runs the model, or returns the model and its inputs. FILE.py is
    imported: it is your own code. 'autosched tune tasks.yaml' tunes what was written.
    """
    try:
        extracted = extract(load(place, fold=fold))
    except (NotRunnable, NotFoldable) as error:
        raise click.UsageError(str(error)) from error
    if not extracted.found:
        raise click.UsageError(f"{place}: it ran, and no product or convolution that specs state")
    out.write_text(to_yaml(extracted, place.rpartition(":")[0]), "utf-8")
    rows = [
        (
            f"t{number}",
            found.described.workload,
            found.count,
            found.seconds / extracted.seconds if extracted.seconds else 0.0,
        )
        for number, found in enumerate(extracted.found)
    ]
    if output.json:
        named = ("id", "label", "key", "count", "share")
        values = [(row, w.label, w.key, n, round(share, 4)) for row, w, n, share in rows]
        output.value([dict(zip(named, value, strict=True)) for value in values])
    else:
        cells = [[row, w.label, str(n), f"{share:.1%}"] for row, w, n, share in rows]
        output.table(("id", "workload", "count", "share"), cells)
    for what, number in sorted(extracted.left.items()):
        output.say(f"left out: {number} x {what}, which no spec states")
    clock = "of GPU time" if extracted.on_gpu else "of the CPU's time, which says little of a GPU's"
    output.say(f"{out}: {count(len(rows), 'workload')}, {extracted.share:.0%} {clock}")
